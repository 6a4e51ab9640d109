{{- define "medusa.name" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "medusa.selector" -}}
app.kubernetes.io/name: medusa
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "medusa.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "medusa.selector" . }}
medusa/participant: {{ .Values.participant }}
{{- end -}}

{{- define "medusa.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end -}}
{{- end -}}

{{- /* Every container: nothing may be written but the mounts, no right is gained, none is needed. */ -}}
{{- define "medusa.secured" -}}
image: {{ include "medusa.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: home, mountPath: /srv/medusa}
  - {name: tmp, mountPath: /tmp}
  - {name: contracts, mountPath: /srv/given, readOnly: true}
{{- end -}}

{{- /* The administrator's login: of what makes homes, and of Airflow. */ -}}
{{- define "medusa.admin" -}}
- name: MEDUSA_CATALOG_URL
  valueFrom: {secretKeyRef: {name: {{ .Values.catalog.secret | quote }}, key: {{ .Values.catalog.key | quote }}}}
{{- end -}}

{{- define "medusa.objects" -}}
{{- with .Values.objectStore.secret }}
- name: AWS_ACCESS_KEY_ID
  valueFrom: {secretKeyRef: {name: {{ . | quote }}, key: AWS_ACCESS_KEY_ID}}
- name: AWS_SECRET_ACCESS_KEY
  valueFrom: {secretKeyRef: {name: {{ . | quote }}, key: AWS_SECRET_ACCESS_KEY}}
- name: AWS_SESSION_TOKEN
  valueFrom: {secretKeyRef: {name: {{ . | quote }}, key: AWS_SESSION_TOKEN, optional: true}}
{{- end }}
{{- end -}}
