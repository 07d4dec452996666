{{/* Which request is the operator's own, as a match condition. */}}
{{- define "cotenant.byTheOperator" -}}
- name: by-the-operator
  expression: request.userInfo.username == '{{ include "cotenant.operatorUser" . }}'
{{- end }}

{{/* Whose object it is: variables of every policy on what the operator makes. */}}
{{- define "cotenant.ownerVariables" -}}
- name: labels
  expression: object.metadata.?labels.orValue({})
- name: owners
  expression: object.metadata.?ownerReferences.orValue([])
- name: uid
  expression: "variables.owners.size() == 1 ? variables.owners[0].uid : ''"
- name: job
  expression: "variables.owners.size() == 1 ? variables.owners[0].name : ''"
{{- end }}

{{/* What holds for everything that the operator makes. */}}
{{- define "cotenant.ownedByAJob" -}}
- expression: namespaceObject.metadata.?labels[?'cotenant.dev/tenant'] == optional.of('true')
  reason: Forbidden
  messageExpression: >-
    'the operator makes nothing in namespace ' + request.namespace + ', which is not labelled cotenant.dev/tenant=true'
- expression: >-
    variables.owners.size() == 1 && variables.owners[0].kind == 'TrainingJob'
    && variables.owners[0].apiVersion.startsWith('cotenant.dev/') && variables.owners[0].?controller.orValue(false)
  reason: Forbidden
  message: what the operator makes has one owner, a TrainingJob that controls it
- expression: >-
    variables.labels[?'app.kubernetes.io/managed-by'] == optional.of('cotenant')
    && variables.labels[?'cotenant.dev/job'] == optional.of(variables.job)
    && variables.labels[?'cotenant.dev/job-uid'] == optional.of(variables.uid)
  reason: Forbidden
  message: what the operator makes carries the labels of its TrainingJob
{{- end }}

{{/* Metadata of a policy and its binding. */}}
{{- define "cotenant.policyMetadata" -}}
name: {{ .name }}
labels:
  {{- include "cotenant.labels" .root | nindent 2 }}
{{- end }}

{{/* The binding of a policy, everywhere. */}}
{{- define "cotenant.policyBinding" -}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  {{- include "cotenant.policyMetadata" . | nindent 2 }}
spec:
  policyName: {{ .name }}
  validationActions: {{ .root.Values.admission.actions | toJson }}
{{- end }}

{{/* Keys of the taints that the chart's values let worker and server pods tolerate, as JSON; an empty key tolerates every taint. */}}
{{- define "cotenant.toleratedTaints" -}}
{{- $keys := list }}
{{- range .Values.worker.tolerations }}{{ $keys = append $keys (.key | default "") }}{{ end }}
{{- range (.Values.operator.settings.server_tolerations | default "[]" | fromJsonArray) }}{{ $keys = append $keys (.key | default "") }}{{ end }}
{{- $keys | toJson }}
{{- end }}

{{/* "true" where the chart makes the PriorityClass of worker pods; an administrator who names one of their own needs none. */}}
{{- define "cotenant.makesPriorityClass" -}}
{{- if and (not (kindIs "invalid" .Values.worker.priority)) (not .Values.operator.settings.pod_priority_class) }}true{{ end }}
{{- end }}

{{/* Its name. The value of a PriorityClass cannot be changed, and Helm would fail with the whole upgrade: another value is another class. */}}
{{- define "cotenant.workersPriorityClass" -}}
cotenant-workers{{ if ne (int64 .Values.worker.priority) 1000000 }}-{{ int64 .Values.worker.priority }}{{ end }}
{{- end }}

{{/* Fails where a setting has a text that is no network; nothing else. */}}
{{- define "cotenant.checkNetworks" -}}
{{- $octet := "(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])" }}
{{- $ipv4 := printf "%s([.]%s){3}(/(3[0-2]|[12]?[0-9]))?" $octet $octet }}
{{- $ipv6 := "[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))?" }}
{{- $settings := .Values.operator.settings }}
{{- range $name := list "dns_cidrs" "egress_cidrs" "operator_cidrs" }}
{{- range index $settings $name | default "" | nospace | splitList "," | compact }}
{{- if not (regexMatch (printf "^(%s|%s)$" $ipv4 $ipv6) .) }}
{{- fail (printf "operator.settings.%s: %s is no network: write one such as 10.20.0.0/16 or fd00::/8" $name .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
