{{/* Environment variables that a tenant's own pods may not set: the first two groups of cotenant.api.resources.reserved_env, and ours. */}}
{{- define "cotenant.deniedEnv" -}}
^(NVIDIA_.*|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_.*|CUDA_MPS_.*|CUDA_DISABLE_CONTROL|GPU_DEVICE_ORDINAL|ROCR_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES)$|^(LD_PRELOAD|LD_AUDIT)$|^COTENANT_
{{- end }}
