/* A libnvidia-ml.so.1 for tests: the real nvidia-ml-py runs on it. Every call reads the state file anew, so a test
 * changes the world by writing a line. Lines: `<key> <index> <rest>`; keys: see the functions below.
 *   gpu 0 GPU-uuid|product name|total bytes|used bytes|pci bus id      one per GPU
 *   process 0 4711 1048576                                             compute process and its bytes (- for none told)
 *   sm 0 4711 37                                                       a sample of its use of multiprocessors, in percent
 *   mps 0 ..., graphics 0 ...                                          the same for the other two lists
 *   error 0 15, fail 0 <function> <code>                               every call on GPU 0 / one function fails
 *   xid 0 79                                                           one event, delivered once per line number
 *   linked 0 1 | mig 0 1 | remap 0 pending failed | pages 0 pending | fabric 0 state | ecc 0 n | clocks 0 mask | recovery 0 n | load 0 percent
 *   power 0 milliwatts | heat 0 degrees
 *   mode 0 3                                                           its compute mode: 0 for all, 3 for one process
 *   driver 0 615.71.09                                                 the driver's version
 *   limit 0 /sys/fs/cgroup/leaf 1048576 2097152 4096                   soft, hard, used bytes (hard: max for none)
 *   instance 0 MIG-uuid|product name|total bytes|used bytes           a MIG instance; the nth is device 16 * (0 + 1) + n,
 *                                                                      under which `process` and the like name it
 *   hang 0 <function> <milliseconds>                                   that function sleeps
 * -DOLD_DRIVER leaves out what a driver of some years ago does not have. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OK 0
#define INVALID 2
#define NOT_SUPPORTED 3
#define TOO_SMALL 7
#define TIMEOUT 10
#define LOST 15
#define LINE 512

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { int index; } device;
static device devices[16 * 17];

/* The nth line `key index …`; its rest goes to `rest`. */
static int find(const char *key, int index, int nth, char *rest) {
  const char *path = getenv("FAKE_NVML_STATE");
  FILE *file = path ? fopen(path, "r") : NULL;
  char line[LINE], name[64];
  int number, used, found = 0;
  if (!file) return 0;
  while (fgets(line, LINE, file)) {
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "%63s %d %n", name, &number, &used) < 2 || strcmp(name, key) || number != index) continue;
    if (nth-- == 0) { strcpy(rest, line + used); found = 1; break; }
  }
  fclose(file);
  return found;
}

static int count_gpus(void) {
  char rest[LINE];
  int n = 0;
  while (n < 16 && find("gpu", n, 0, rest)) n++;
  return n;
}

/* Hangs and errors that the state asks of this function on this GPU. */
static int mood(const char *function, int index) {
  char rest[LINE], name[64];
  int number;
  for (int nth = 0; find("hang", index, nth, rest); nth++)
    if (sscanf(rest, "%63s %d", name, &number) == 2 && !strcmp(name, function)) usleep(number * 1000);
  if (find("error", index, 0, rest)) return atoi(rest);
  for (int nth = 0; find("fail", index, nth, rest); nth++)
    if (sscanf(rest, "%63s %d", name, &number) == 2 && !strcmp(name, function)) return number;
  return OK;
}
#define MOOD(d) do { int bad = mood(__func__, (d)->index); if (bad) return bad; } while (0)

/* Field n of the line of a GPU or an instance, fields separated by bars. */
static void field(int index, int n, char *out) {
  char rest[LINE], *at = rest;
  out[0] = 0;
  if (index < 16 ? !find("gpu", index, 0, rest) : !find("instance", index / 16 - 1, index % 16, rest)) return;
  for (; n > 0 && at; n--) { at = strchr(at, '|'); if (at) at++; }
  if (!at) return;
  strcpy(out, at);
  out[strcspn(out, "|")] = 0;
}
static int number(const char *key, int index, u32 *value) {
  char rest[LINE];
  if (!find(key, index, 0, rest)) return NOT_SUPPORTED;
  *value = (u32)strtoul(rest, NULL, 0);
  return OK;
}

int nvmlInitWithFlags(u32 flags) { (void)flags; return mood(__func__, 0); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { (void)code; return "error of the fake driver"; }
int nvmlSystemGetDriverVersion(char *out, u32 size) {
  char rest[LINE];
  snprintf(out, size, "%s", find("driver", 0, 0, rest) ? rest : "580.65.06");
  return OK;
}
int nvmlDeviceGetCount_v2(u32 *count) { *count = count_gpus(); return OK; }
int nvmlDeviceGetHandleByIndex_v2(u32 index, device **handle) {
  if ((int)index >= count_gpus()) return INVALID;
  devices[index].index = index;
  MOOD(&devices[index]);
  *handle = &devices[index];
  return OK;
}
int nvmlDeviceGetUUID(device *d, char *out, u32 size) {
  char value[LINE];
  MOOD(d);
  field(d->index, 0, value);
  snprintf(out, size, "%s", value);
  return OK;
}
int nvmlDeviceGetName(device *d, char *out, u32 size) {
  char value[LINE];
  MOOD(d);
  field(d->index, 1, value);
  snprintf(out, size, "%s", value);
  return OK;
}
typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; } pci_info;
int nvmlDeviceGetPciInfo_v3(device *d, pci_info *info) {
  char value[LINE];
  MOOD(d);
  field(d->index, 4, value);
  snprintf(info->bus_id, sizeof info->bus_id, "%.31s", value);
  return OK;
}
typedef struct { u64 total, free, used; } memory_v1;
int nvmlDeviceGetMemoryInfo(device *d, memory_v1 *memory) {
  char value[LINE];
  MOOD(d);
  field(d->index, 2, value);
  memory->total = strtoull(value, NULL, 10);
  field(d->index, 3, value);
  memory->used = strtoull(value, NULL, 10) + (512ULL << 20); /* version 1 counts the driver's reserve as used */
  memory->free = memory->total - memory->used;
  return OK;
}
int nvmlDeviceGetUtilizationRates(device *d, u32 *rates) {
  MOOD(d);
  rates[1] = 0;
  return number("load", d->index, &rates[0]);
}
int nvmlDeviceGetPowerUsage(device *d, u32 *milliwatts) {
  MOOD(d);
  return number("power", d->index, milliwatts);
}
int nvmlDeviceGetTemperature(device *d, u32 sensor, u32 *celsius) {
  MOOD(d);
  return sensor == 0 ? number("heat", d->index, celsius) : INVALID;
}
int nvmlDeviceGetMigMode(device *d, u32 *current, u32 *pending) {
  MOOD(d);
  *pending = 0;
  return number("mig", d->index, current);
}
int nvmlDeviceGetComputeMode(device *d, u32 *mode) {
  MOOD(d);
  return number("mode", d->index, mode);
}
int nvmlDeviceGetMaxMigDeviceCount(device *d, u32 *count) { MOOD(d); *count = 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(device *d, u32 slot, device **handle) {
  char rest[LINE];
  int index = 16 * (d->index + 1) + (int)slot;
  MOOD(d);
  if (!find("instance", d->index, (int)slot, rest)) return 6; /* not found */
  devices[index].index = index;
  *handle = &devices[index];
  return OK;
}
int nvmlDeviceGetMinorNumber(device *d, u32 *minor) {
  MOOD(d);
  *minor = d->index + 4;
  return OK;
}
int nvmlDeviceGetNumaNodeId(device *d, u32 *node) {
  MOOD(d);
  *node = 1;
  return OK;
}
int nvmlDeviceGetTotalEccErrors(device *d, u32 kind, u32 counter, u64 *errors) {
  u32 value = 0;
  int code;
  MOOD(d);
  (void)kind; (void)counter;
  code = number("ecc", d->index, &value);
  *errors = value;
  return code;
}

typedef struct { u32 pid; u64 bytes; u32 gi, ci; } process;
static int processes(const char *key, int index, u32 *count, process *list) {
  char rest[LINE], bytes[64];
  u32 pid, n = 0;
  for (int nth = 0; find(key, index, nth, rest); nth++) {
    if (sscanf(rest, "%u %63s", &pid, bytes) < 2) continue;
    if (list && n < *count) {
      process one = {pid, bytes[0] == '-' ? ~0ULL : strtoull(bytes, NULL, 10), ~0U, ~0U};
      list[n] = one;
    }
    n++;
  }
  if (n == 0 || (list && n <= *count)) { *count = n; return OK; }
  *count = n;
  return TOO_SMALL;
}

#ifndef OLD_DRIVER
typedef struct { u32 pid; u64 at; u32 sm, memory, encoder, decoder; } process_sample;
int nvmlDeviceGetProcessUtilization(device *d, process_sample *list, u32 *count, u64 since) {
  char rest[LINE];
  u32 pid, sm, n = 0;
  (void)since;
  MOOD(d);
  for (int nth = 0; find("sm", d->index, nth, rest); nth++) {
    if (sscanf(rest, "%u %u", &pid, &sm) != 2) continue;
    if (list && n < *count) list[n] = (process_sample){pid, (u64)nth, sm, 0, 0, 0};
    n++;
  }
  if (n == 0) return 6; /* not found */
  if (list && n <= *count) { *count = n; return OK; }
  *count = n;
  return TOO_SMALL;
}
typedef struct { const char *cgroup; u64 soft, hard, used; } memory_limits;
int nvmlDeviceGetMemoryLimits_v1(device *d, memory_limits *limits) {
  char rest[LINE], path[LINE], hard[64];
  u64 soft, used;
  MOOD(d);
  for (int nth = 0; find("limit", d->index, nth, rest); nth++)
    if (sscanf(rest, "%511s %llu %63s %llu", path, &soft, hard, &used) == 4 && !strcmp(path, limits->cgroup)) {
      limits->soft = soft;
      limits->hard = hard[0] == 'm' ? ~0ULL : strtoull(hard, NULL, 10);
      limits->used = used;
      return OK;
    }
  return 6; /* not found */
}
typedef struct { u32 version; u64 total, reserved, free, used; } memory_v2;
int nvmlDeviceGetMemoryInfo_v2(device *d, memory_v2 *memory) {
  char value[LINE];
  MOOD(d);
  field(d->index, 2, value);
  memory->total = strtoull(value, NULL, 10);
  field(d->index, 3, value);
  memory->used = strtoull(value, NULL, 10);
  memory->reserved = 512ULL << 20;
  memory->free = memory->total - memory->used - memory->reserved;
  return OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(device *d, u32 *n, process *p) { MOOD(d); return processes("process", d->index, n, p); }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(device *d, u32 *n, process *p) { MOOD(d); return processes("mps", d->index, n, p); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(device *d, u32 *n, process *p) { MOOD(d); return processes("graphics", d->index, n, p); }
int nvmlDeviceGetP2PStatus(device *a, device *b, u32 what, u32 *status) {
  char rest[LINE];
  MOOD(a);
  *status = 1;
  if (what != 2) return INVALID;
  for (int nth = 0; find("linked", a->index, nth, rest); nth++) if (atoi(rest) == b->index) *status = 0;
  for (int nth = 0; find("linked", b->index, nth, rest); nth++) if (atoi(rest) == a->index) *status = 0;
  return OK;
}
int nvmlDeviceGetRemappedRows(device *d, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failed) {
  char rest[LINE];
  MOOD(d);
  if (!find("remap", d->index, 0, rest)) return NOT_SUPPORTED;
  *corrected = *uncorrected = 0;
  return sscanf(rest, "%u %u", pending, failed) == 2 ? OK : INVALID;
}
typedef struct { u32 version; unsigned char cluster[16]; u32 status, clique, state, health; } fabric_info;
int nvmlDeviceGetGpuFabricInfoV(device *d, fabric_info *info) {
  MOOD(d);
  info->status = OK;
  return number("fabric", d->index, &info->state);
}
int nvmlDeviceGetRetiredPagesPendingStatus(device *d, u32 *pending) {
  MOOD(d);
  return number("pages", d->index, pending);
}
int nvmlDeviceGetCurrentClocksEventReasons(device *d, u64 *reasons) {
  u32 value = 0;
  int code;
  MOOD(d);
  code = number("clocks", d->index, &value);
  *reasons = value;
  return code;
}
typedef struct { u32 field, scope; long long at, latency; u32 type; int code; u64 value; } field_value;
int nvmlDeviceGetFieldValues(device *d, int n, field_value *values) {
  MOOD(d);
  for (int i = 0; i < n; i++) {
    u32 value = 0;
    values[i].code = values[i].field == 230 ? number("recovery", d->index, &value) : NOT_SUPPORTED;
    values[i].value = value;
  }
  return OK;
}
#endif

/* Events: line k of all `xid` lines is delivered once, in order. A GPU that is lost ends every wait of a set with it. */
static int delivered, registered[16];
typedef struct { device *device; u64 type, data; u32 gi, ci; } event_data;
int nvmlEventSetCreate(int **set) { static int one; memset(registered, 0, sizeof registered); *set = &one; return OK; }
int nvmlEventSetFree(int *set) { (void)set; return OK; }
int nvmlDeviceRegisterEvents(device *d, u64 types, int *set) {
  (void)types; (void)set;
  MOOD(d);
  registered[d->index] = 1;
  return OK;
}
int nvmlEventSetWait_v2(int *set, event_data *data, u32 timeout) {
  (void)set;
  for (u32 waited = 0;; waited += 10) {
    int seen = 0;
    char rest[LINE];
    for (int index = 0; index < count_gpus(); index++)
      if (registered[index] && mood(__func__, index) == LOST) return LOST;
    for (int index = 0; index < count_gpus(); index++)
      for (int nth = 0; find("xid", index, nth, rest); nth++)
        if (seen++ == delivered) {
          delivered++;
          devices[index].index = index;
          data->device = &devices[index];
          data->type = 8;
          data->data = strtoull(rest, NULL, 10);
          return OK;
        }
    if (waited >= timeout) return TIMEOUT;
    usleep(10000);
  }
}
