/* A libcuda.so.1 for workers of tests: it shows the GPUs that CUDA_VISIBLE_DEVICES names by UUID, as large as the limit
 * that the toolkit was told of, or 79.5 GiB. A client of MPS needs the socket of its namespace: without it the real
 * library would let the process have the whole GPU, so this one shows none and says so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NO_DEVICE 100
#define WHOLE_MIB 81408ULL
#define UUID_CHARS 40
typedef unsigned long long u64;

static int named(int nth, unsigned char *out) {
  const char *at = getenv("CUDA_VISIBLE_DEVICES");
  for (; at && strstr(at, "GPU-"); nth--) {
    at = strstr(at, "GPU-");
    if (nth == 0) {
      int byte = 0;
      for (const char *hex = at + 4; byte < 16 && hex < at + UUID_CHARS; hex += 2) {
        unsigned value;
        if (*hex == '-') hex++;
        if (sscanf(hex, "%2x", &value) != 1) return 0;
        out[byte++] = (unsigned char)value;
      }
      return byte == 16;
    }
    at += 4;
  }
  return 0;
}

int cuInit(unsigned flags) {
  const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
  char socket[512];
  (void)flags;
  if (!pipe) return 0;
  snprintf(socket, sizeof socket, "%s/control", pipe);
  return access(socket, F_OK) == 0 ? 0 : NO_DEVICE;
}
int cuDeviceGetCount(int *count) {
  unsigned char uuid[16];
  for (*count = 0; *count < 16 && named(*count, uuid);) ++*count;
  return 0;
}
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { return named(device, uuid) ? 0 : NO_DEVICE; }
int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = context; return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return 0; }
int cuCtxSetCurrent(void *context) { (void)context; return 0; }
int cuMemGetInfo_v2(u64 *available, u64 *total) {
  const char *limit = getenv("NVIDIA_GPU_MEMORY_LIMIT");
  *total = (limit ? strtoull(limit, NULL, 10) : WHOLE_MIB) << 20;
  *available = *total;
  return 0;
}
int cuGetErrorName(int code, const char **name) {
  *name = code == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
