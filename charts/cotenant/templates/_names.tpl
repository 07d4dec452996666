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
{{ .root.Values.image.registry }}/{{ .component }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
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

{{/* A setting as text: whole numbers stay whole however large they are. */}}
{{- define "cotenant.setting" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ . | int64 }}{{ else }}{{ . }}{{ end }}
{{- end }}
