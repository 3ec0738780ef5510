{{- define "sandur.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "sandur.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sandur.labels" -}}
{{ include "sandur.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "sandur.scheme" -}}
{{ if .Values.tls.existingSecret }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}

{{/* "yes" if the store is a directory. */}}
{{- define "sandur.isDirectory" -}}
{{- $store := required "store must be set: the URL of a bucket, such as s3://BUCKET/PREFIX?region=REGION, or /data" .Values.store }}
{{- if or (hasPrefix "/" $store) (hasPrefix "file://" $store) }}yes{{ end }}
{{- end }}

{{/* Fails if the values cannot work. */}}
{{- define "sandur.check" -}}
{{- if eq (include "sandur.isDirectory" .) "yes" }}
{{- if ne (int .Values.replicas) 1 }}{{ fail "a directory store has one process: set replicas to 1, or use a bucket" }}{{ end }}
{{- $path := trimPrefix "file://" .Values.store }}
{{- if not (or (eq $path "/data") (hasPrefix "/data/" $path)) }}{{ fail "a directory store must be /data or below it, where its volume is mounted" }}{{ end }}
{{- end }}
{{- if not (or .Values.auth.existingSecret .Values.insecureListen) }}
{{- fail "set auth.existingSecret to a secret with auth.toml, or insecureListen to true, which gives every client all permissions" }}
{{- end }}
{{- if and .Values.carbon.enabled (not .Values.insecureListen) }}{{ fail "carbon's protocol has no credentials: carbon.enabled needs insecureListen" }}{{ end }}
{{- end }}

{{/* The ports of a service; context: the root. */}}
{{- define "sandur.ports" -}}
- name: http
  port: {{ .Values.service.port }}
  targetPort: http
{{- if .Values.otlpGrpc.enabled }}
- name: otlp-grpc
  port: {{ .Values.otlpGrpc.port }}
  targetPort: otlp-grpc
  {{- if not .Values.tls.existingSecret }}
  appProtocol: kubernetes.io/h2c
  {{- end }}
{{- end }}
{{- if .Values.carbon.enabled }}
- name: carbon
  port: {{ .Values.carbon.port }}
  targetPort: carbon
{{- end }}
{{- end }}

{{/* A claim of a volume; context: name, size and class. */}}
{{- define "sandur.claim" -}}
- metadata:
    name: {{ .name }}
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .class }}
    storageClassName: {{ . }}
    {{- end }}
    resources:
      requests:
        storage: {{ .size }}
{{- end }}
