{{- /* How everything of a release is called and labelled. */ -}}

{{- define "biclique.name" -}}
{{- if contains "biclique" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-biclique" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "biclique.operator" -}}
{{- printf "%s-operator" (include "biclique.name" .) -}}
{{- end -}}

{{- /* Of what has no namespace: another release may have the same name in another one. */ -}}
{{- define "biclique.everywhere" -}}
{{- printf "%s-%s" (include "biclique.name" .) .Release.Namespace | trunc 56 | trimSuffix "-" -}}
{{- end -}}

{{- define "biclique.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "biclique.operator" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed where serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* Of the operator's own pods; queries' pods have the name biclique. */ -}}
{{- define "biclique.selector" -}}
app.kubernetes.io/name: biclique-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "biclique.labels" -}}
{{ include "biclique.selector" . }}
{{ include "biclique.ofRelease" . }}
{{- end -}}

{{- define "biclique.ofRelease" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- /* A list of the image's values and the chart. */ -}}
{{- define "biclique.image" -}}
{{- $image := index . 0 -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default (index . 1).AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- /* Restricted: what a namespace that enforces Kubernetes' strictest profile lets in. */ -}}
{{- define "biclique.podSecurity" -}}
runAsNonRoot: true
runAsUser: 185
runAsGroup: 185
fsGroup: 185
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "biclique.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "biclique.kafka" -}}
{{- printf "%s-kafka.%s.svc:9092" (include "biclique.name" .) .Release.Namespace -}}
{{- end -}}

{{- define "biclique.redis" -}}
{{- printf "redis://%s-redis.%s.svc:6379/0" (include "biclique.name" .) .Release.Namespace -}}
{{- end -}}
