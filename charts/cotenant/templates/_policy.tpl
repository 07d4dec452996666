{{/* Environment variables that a tenant's own pods may not set: the first two groups of cotenant.api.resources.job_spec.reserved_env, and ours. */}}
{{- define "cotenant.deniedEnv" -}}
^(NVIDIA_.*|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_.*|CUDA_MPS_.*|CUDA_DISABLE_CONTROL|GPU_DEVICE_ORDINAL|ROCR_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES)$|^(LD_PRELOAD|LD_AUDIT)$|^COTENANT_
{{- end }}

{{/* Users whom no policy for tenants judges, as a list in CEL: the operator, and those whom the administrator names. */}}
{{- define "cotenant.exemptUsers" -}}
{{ prepend .Values.admission.exemptUsers (include "cotenant.operatorUser" .) | toJson }}
{{- end }}

{{/* In CEL: whoever may delete Nodes is an administrator. It asks the authorizers, so groups of any identity provider count. */}}
{{- define "cotenant.byAdministrator" -}}
authorizer.group('').resource('nodes').check('delete').allowed()
{{- end }}

{{/* In CEL: the garbage collector, also where all controllers share one account. */}}
{{- define "cotenant.byGarbageCollector" -}}
request.userInfo.username in ['system:serviceaccount:kube-system:generic-garbage-collector', 'system:kube-controller-manager']
{{- end }}

{{/* In CEL: a label key that only the operator uses, given the key as k and the labels as the template's argument. */}}
{{- define "cotenant.ownLabel" -}}
(k.startsWith('cotenant.dev/') || (k == 'app.kubernetes.io/managed-by' && {{ . }}[k] == 'cotenant'))
{{- end }}

{{/* In CEL: a peer of a NetworkPolicy is the operator. */}}
{{- define "cotenant.operatorPeer" -}}
peer.?namespaceSelector.?matchLabels.orValue({}) == {'kubernetes.io/metadata.name': '{{ .Release.Namespace }}'}
{{- range .Values.operator.settings.operator_cidrs | default "" | nospace | splitList "," | compact }} || peer.?ipBlock.?cidr == optional.of('{{ . }}'){{ end }}
{{- end }}

{{/* Longest grace of a deletion that somebody who is not an administrator may ask for, in seconds. */}}
{{- define "cotenant.maxGraceSeconds" -}}
{{ .Values.operator.settings.max_grace_period_s | default 600 | int64 }}
{{- end }}

{{/* Variables that say whether a selector of labels, given as CEL, selects no pod of any job: one requirement fails for all of
them, because it asks for a label that they do not have, or that one of theirs be not there. */}}
{{- define "cotenant.leavesJobsOut" -}}
- name: labels
  expression: {{ . }}.?matchLabels.orValue({})
- name: leavesJobsOut
  expression: >-
    variables.labels.exists(k, !k.startsWith('cotenant.dev/')
      && (k != 'app.kubernetes.io/managed-by' || variables.labels[k] != 'cotenant'))
    || {{ . }}.?matchExpressions.orValue([]).exists(e,
      e.key == 'app.kubernetes.io/managed-by'
      ? (e.operator == 'DoesNotExist' || (e.operator == 'In' && !('cotenant' in e.values))
         || (e.operator == 'NotIn' && 'cotenant' in e.values))
      : e.operator == 'DoesNotExist'
      ? e.key in ['cotenant.dev/job', 'cotenant.dev/job-uid', 'cotenant.dev/attempt', 'cotenant.dev/node-rank', 'cotenant.dev/queue']
      : (e.operator in ['In', 'Exists'] && !e.key.startsWith('cotenant.dev/')))
{{- end }}

{{/* In CEL: a key of labels or annotations that Cotenant gives a meaning, given the key as k. */}}
{{- define "cotenant.ownKey" -}}
(k.matches('(^|[.])cotenant[.]dev/') || k == 'app.kubernetes.io/managed-by')
{{- end }}

{{/* In CEL: of labels or annotations (before and after, each as CEL) none is changed or removed, and none of Cotenant's is
added. Others may be: webhooks of Kyverno or Gatekeeper add theirs to every object, also to what the operator writes. */}}
{{- define "cotenant.keepsOwnKeys" -}}
({{ .before }}.all(k, {{ .after }}[?k] == optional.of({{ .before }}[k])) && {{ .after }}.all(k, k in {{ .before }} || !{{ include "cotenant.ownKey" . }}))
{{- end }}
