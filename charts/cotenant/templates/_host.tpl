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
{{- /* Below /usr/local/nvidia the GPU Operator has its toolkit's configuration, which counts there. */ -}}
{{- $paths = append $paths (dict "name" "usr" "path" "/usr" "type" "Directory") -}}
{{- $paths = append $paths (dict "name" "cdi-dynamic" "path" "/var/run/cdi" "type" "DirectoryOrCreate") -}}
{{- end -}}
{{- if $host.packages }}{{ $paths = append $paths (dict "name" "packages" "path" "/var/lib/dpkg" "type" "Directory") }}{{ end -}}
{{- $paths | toJson -}}
{{- end }}

{{/* "true" where agents offer shares of GPUs to their kubelets, as extended resources. */}}
{{- define "cotenant.devicePlugin" -}}
{{- if and .Values.agent.enabled .Values.agent.devicePlugin.enabled }}true{{ end }}
{{- end }}

{{/* Labels by which nodes are known to have NVIDIA's GPUs, as JSON: [{key, value}]; no value: whatever it says. */}}
{{- define "cotenant.gpuLabels" -}}
{{- list
  (dict "key" "nvidia.com/gpu.present" "value" "true")
  (dict "key" "feature.node.kubernetes.io/pci-10de.present" "value" "true")
  (dict "key" "feature.node.kubernetes.io/pci-0300_10de.present" "value" "true")
  (dict "key" "feature.node.kubernetes.io/pci-0302_10de.present" "value" "true")
  (dict "key" "cloud.google.com/gke-accelerator")
  (dict "key" "k8s.amazonaws.com/accelerator")
  (dict "key" "karpenter.k8s.aws/instance-gpu-manufacturer" "value" "nvidia")
  (dict "key" "eks.amazonaws.com/instance-gpu-manufacturer" "value" "nvidia")
  (dict "key" "kubernetes.azure.com/accelerator" "value" "nvidia")
  (dict "key" "cotenant.dev/gpu-class")
  | toJson -}}
{{- end }}

{{/* Where agents of NVIDIA's GPUs run: on nodes that are known to have some, unless agent.nodeSelector or agent.simulate says which.
Never on a node of the agents of other devices: two would write one GPUNode. Of the terms one has to hold. */}}
{{- define "cotenant.gpuNodesOnly" -}}
{{- $known := list -}}
{{- if not (or .Values.agent.nodeSelector .Values.agent.simulate) -}}
{{- range include "cotenant.gpuLabels" . | fromJsonArray -}}
{{- $holds := hasKey . "value" | ternary (dict "key" .key "operator" "In" "values" (list .value)) (dict "key" .key "operator" "Exists") -}}
{{- $known = append $known (list $holds) -}}
{{- end -}}
{{- end -}}
{{- $terms := $known -}}
{{- if .Values.agent.otherDevices.enabled -}}
{{- $terms = list -}}
{{- range $label, $value := .Values.agent.otherDevices.nodeSelector -}}
{{- $not := dict "key" $label "operator" "NotIn" "values" (list (toString $value)) -}}
{{- range ($known | default (list list)) -}}
{{- $terms = append $terms (append . $not) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $terms -}}
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
        {{- range . }}
        - matchExpressions: {{ toJson . }}
        {{- end }}
{{- end -}}
{{- end }}

{{/* Nodes of Linux, for which alone the images are built, and among these the ones of a selector in the values. */}}
{{- define "cotenant.onLinux" -}}
nodeSelector:
  {{- . | default dict | merge (dict "kubernetes.io/os" "linux") | toYaml | nindent 2 }}
{{- end }}

{{/* SELinux' type of the containers that have parts of the host, as a field of a security context; empty: the runtime's own. */}}
{{- define "cotenant.seLinuxOptions" -}}
{{- with .Values.agent.seLinuxType | default (eq (include "cotenant.openshift" .) "true" | ternary "spc_t" "") -}}
seLinuxOptions: {type: {{ . }}} # the usual one may read nothing of the host, nor speak with the kubelet
{{- end }}
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
