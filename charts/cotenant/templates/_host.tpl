{{/* What of the host a real agent reads, as JSON: [{name, path, type}]. */}}
{{- define "cotenant.hostPaths" -}}
{{- $host := .Values.agent.host -}}
{{- $paths := list -}}
{{- if $host.proc }}{{ $paths = append $paths (dict "name" "proc" "path" "/proc" "type" "Directory") }}{{ end -}}
{{- if $host.cgroup }}{{ $paths = append $paths (dict "name" "cgroup" "path" "/sys/fs/cgroup" "type" "Directory") }}{{ end -}}
{{- if $host.runtimeConfig -}}
{{- /* Its folders nvidia-container-runtime and cdi. They are not mounted themselves: where one is not there, a kubelet would have to
make it, which it cannot below a read-only root (Talos, Container-Optimized OS, Bottlerocket). */ -}}
{{- $paths = append $paths (dict "name" "etc" "path" "/etc" "type" "Directory") -}}
{{- $paths = append $paths (dict "name" "cdi-dynamic" "path" "/var/run/cdi" "type" "DirectoryOrCreate") -}}
{{- end -}}
{{- if $host.packages }}{{ $paths = append $paths (dict "name" "packages" "path" "/var/lib/dpkg" "type" "Directory") }}{{ end -}}
{{- $paths | toJson -}}
{{- end }}

{{/* "true" where agents offer shares of GPUs to their kubelets, as extended resources. */}}
{{- define "cotenant.devicePlugin" -}}
{{- if and .Values.agent.enabled .Values.agent.devicePlugin.enabled }}true{{ end }}
{{- end }}

{{/* Never on a node of the agents of other devices, whatever agent.nodeSelector says: two would write one GPUNode. */}}
{{- define "cotenant.notOnOtherDevices" -}}
{{- if .Values.agent.otherDevices.enabled -}}
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms: # one of them has to hold
        {{- range $label, $value := .Values.agent.otherDevices.nodeSelector }}
        - matchExpressions: [{key: {{ $label | quote }}, operator: NotIn, values: [{{ $value | quote }}]}]
        {{- end }}
{{- end -}}
{{- end }}

{{/* "true" where shares of compute are held by MPS: a pod gets its namespace with its ResourceClaim. */}}
{{- define "cotenant.mps" -}}
{{- if and .Values.agent.mps.enabled (not .Values.agent.dra.enabled) }}
{{- fail "agent.mps.enabled needs agent.dra.enabled: a pod gets its namespace of MPS with its ResourceClaim" }}
{{- end }}
{{- if and .Values.agent.mps.enabled (include "cotenant.dra" .) }}true{{ end }}
{{- end }}

{{/* "true" where GPUs are offered by Dynamic Resource Allocation: the values ask for it and the cluster serves it. */}}
{{- define "cotenant.dra" -}}
{{- if and .Values.agent.enabled .Values.agent.dra.enabled (.Capabilities.APIVersions.Has "resource.k8s.io/v1") }}true{{ end }}
{{- end }}
