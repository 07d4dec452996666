{{/* Names and labels that the templates share. One release per cluster: the policies and roles are cluster-wide. */}}
{{- define "cotenant.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/name: cotenant
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "cotenant.selector" -}}
app.kubernetes.io/name: cotenant
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "cotenant.image" -}}
{{ .root.Values.image.registry }}/{{ .component }}
{{- with get .root.Values.image.digests .component }}@{{ . }}{{ else }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "cotenant.agentNamespace" -}}
{{ .Values.agent.namespace | default .Release.Namespace }}
{{- end }}

{{- define "cotenant.operatorUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:cotenant-operator
{{- end }}

{{- define "cotenant.agentUser" -}}
system:serviceaccount:{{ include "cotenant.agentNamespace" . }}:cotenant-agent
{{- end }}

{{/* "true" on OpenShift: as the values say, or by the API that only OpenShift serves. */}}
{{- define "cotenant.openshift" -}}
{{- if kindIs "invalid" .Values.openshift.enabled -}}
{{- if .Capabilities.APIVersions.Has "security.openshift.io/v1" }}true{{ end }}
{{- else if .Values.openshift.enabled -}}
true
{{- end }}
{{- end }}

{{/* User and group of the pods of jobs; empty: the platform's choice. */}}
{{- define "cotenant.workerUser" -}}
{{- if include "cotenant.openshift" . }}{{ else }}{{ .Values.worker.runAsUser }}{{ end }}
{{- end }}

{{/* A setting as text: whole numbers stay whole however large they are. */}}
{{- define "cotenant.setting" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ . | int64 }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{/* Metadata of a pod of this component, its labels last. */}}
{{- define "cotenant.podMetadata" -}}
{{- with include "cotenant.texts" .root.Values.podAnnotations | fromJson -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{ end -}}
labels:
  {{- include "cotenant.selector" . | nindent 2 }}
  {{- with include "cotenant.texts" .root.Values.podLabels | fromJson }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* A map of texts as JSON, without the keys whose value was set to null. */}}
{{- define "cotenant.texts" -}}
{{- $texts := dict }}
{{- range $key, $value := . }}{{ if not (kindIs "invalid" $value) }}{{ $_ := set $texts $key $value }}{{ end }}{{ end }}
{{- $texts | toJson }}
{{- end }}
