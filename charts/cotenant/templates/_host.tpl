{{/* What of the host a real agent reads, as JSON: [{name, path, type}]. */}}
{{- define "cotenant.hostPaths" -}}
{{- $host := .Values.agent.host -}}
{{- $paths := list -}}
{{- if $host.proc }}{{ $paths = append $paths (dict "name" "proc" "path" "/proc" "type" "Directory") }}{{ end -}}
{{- if $host.cgroup }}{{ $paths = append $paths (dict "name" "cgroup" "path" "/sys/fs/cgroup" "type" "Directory") }}{{ end -}}
{{- if $host.runtimeConfig -}}
{{- $paths = append $paths (dict "name" "runtime-config" "path" "/etc/nvidia-container-runtime" "type" "DirectoryOrCreate") -}}
{{- $paths = append $paths (dict "name" "cdi-static" "path" "/etc/cdi" "type" "DirectoryOrCreate") -}}
{{- $paths = append $paths (dict "name" "cdi-dynamic" "path" "/var/run/cdi" "type" "DirectoryOrCreate") -}}
{{- end -}}
{{- if $host.packages }}{{ $paths = append $paths (dict "name" "packages" "path" "/var/lib/dpkg" "type" "Directory") }}{{ end -}}
{{- $paths | toJson -}}
{{- end }}

{{/* "true" where GPUs are offered by Dynamic Resource Allocation: the values ask for it and the cluster serves it. */}}
{{- define "cotenant.dra" -}}
{{- if and .Values.agent.enabled .Values.agent.dra.enabled (.Capabilities.APIVersions.Has "resource.k8s.io/v1") }}true{{ end }}
{{- end }}
