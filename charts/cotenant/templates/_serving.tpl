{{/* "true" where the API of questions is served: before Kubernetes 1.33 the aggregator knows no endpoints but those of Endpoints. */}}
{{- define "cotenant.query" -}}
{{- if and .Values.query.enabled (semverCompare ">=1.33.0-0" .Capabilities.KubeVersion.Version) }}true{{ end }}
{{- end }}

{{/* The Secret with the certificate of /metrics. */}}
{{- define "cotenant.certificateSecret" -}}
{{ .Values.metrics.certificateSecret | default "cotenant-metrics-serving" }}
{{- end }}

{{/* The name by which the API server asks for the certificate of the API of questions. */}}
{{- define "cotenant.queryServer" -}}
cotenant-query.{{ .Release.Namespace }}.svc
{{- end }}

{{/* The Secret that is mounted with it; empty: the operator makes its own certificate. */}}
{{- define "cotenant.querySecret" -}}
{{ .Values.query.certManager | ternary "cotenant-query" .Values.query.certificateSecret }}
{{- end }}

{{/* Secrets that the operator keeps filled with certificates, as JSON: [{namespace, name, servers}]. */}}
{{- define "cotenant.servedSecrets" -}}
{{- $served := list }}
{{- if and .Values.metrics.secure (not .Values.metrics.certificateSecret) }}
{{- $agents := include "cotenant.agentNamespace" . }}
{{- $servers := list (printf "cotenant-operator.%s.svc" .Release.Namespace) (printf "cotenant-agent.%s.svc" $agents) }}
{{- $namespaces := .Values.agent.enabled | ternary (list .Release.Namespace $agents | uniq) (list .Release.Namespace) }}
{{- range $namespaces }}{{ $served = append $served (dict "namespace" . "name" "cotenant-metrics-serving" "servers" $servers) }}{{ end }}
{{- end }}
{{- if and .Values.dashboard.enabled (not .Values.dashboard.certificateSecret) }}
{{- $servers := list (printf "cotenant-dashboard.%s.svc" .Release.Namespace) "localhost" }}
{{- with .Values.dashboard.sessions.host }}{{ $servers = append $servers (printf "*.%s" (regexReplaceAll ":[0-9]+$" . "")) }}{{ end }}
{{- $served = append $served (dict "namespace" .Release.Namespace "name" "cotenant-dashboard-serving" "servers" $servers) }}
{{- end }}
{{- $served | toJson }}
{{- end }}

{{/* Volumes of a pod that talks to the API server and serves /metrics. */}}
{{- define "cotenant.servingVolumes" -}}
# The account's token, in the place where clients look for it: it lasts ten minutes, where Kubernetes' own would last a year.
- name: account
  projected:
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 600}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
      - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
{{- if .Values.metrics.secure }}
- name: certificate
  secret: {secretName: {{ include "cotenant.certificateSecret" . }}}
{{- end }}
{{- end }}

{{- define "cotenant.servingMounts" -}}
- {name: account, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- if .Values.metrics.secure }}
- {name: certificate, mountPath: /etc/cotenant/certificate, readOnly: true}
{{- end }}
{{- end }}

{{/* How Prometheus scrapes: an endpoint of a ServiceMonitor, for the server of this name. */}}
{{- define "cotenant.endpoint" -}}
port: metrics
path: /metrics
interval: {{ .root.Values.metrics.interval }}
{{- if .root.Values.metrics.secure }}
scheme: https
tlsConfig:
  serverName: {{ .server }}
  ca:
    secret: {name: {{ include "cotenant.certificateSecret" .root }}, key: {{ if .root.Values.metrics.certificateSecret }}ca.crt{{ else }}tls.crt{{ end }}}
{{- if .root.Values.metrics.credentials.name }}
authorization:
  credentials: {name: {{ .root.Values.metrics.credentials.name }}, key: {{ .root.Values.metrics.credentials.key }}}
{{- else }}
bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
{{- end }}
{{- end }}
{{- end }}

{{/* Ingress rules of a pod that serves /metrics. */}}
{{- define "cotenant.scraped" -}}
{{- with .Values.networkPolicies.scrapers -}}
- ports:
    - {protocol: TCP, port: metrics}
  from:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}

{{/* Egress rules of a pod that talks to the API server, whose address no selector can name. */}}
{{- define "cotenant.asksTheCluster" -}}
- ports:
    {{- range .Values.networkPolicies.dnsPorts }}
    - {protocol: UDP, port: {{ . }}}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
- ports:
    {{- range .Values.networkPolicies.apiServerPorts }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end }}
