{{- define "postern.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "postern.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "postern.labels" -}}
{{ include "postern.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "postern.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- define "postern.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "postern.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- /* The Secret with the file of API keys; empty when there are none. */ -}}
{{- define "postern.authSecret" -}}
{{- if .Values.auth.secret -}}
{{ .Values.auth.secret }}
{{- else if .Values.auth.keys -}}
{{ include "postern.fullname" . }}-auth
{{- end -}}
{{- end -}}

{{- /* Whether there is any way to say who one is; empty for no. */ -}}
{{- define "postern.hasCredentials" -}}
{{- if or (include "postern.authSecret" .) .Values.auth.oidc.issuer -}}
yes
{{- end -}}
{{- end -}}

{{- define "postern.scheme" -}}
{{ if .Values.tls.secret }}https{{ else }}http{{ end }}
{{- end -}}

{{- /* What the gateway itself would say in a pod that restarts again and again is said before anything is installed. */ -}}
{{- define "postern.check" -}}
{{- if not .Values.zookeeper.connectString -}}
{{- fail "zookeeper.connectString is empty: give the ensemble, for example zk-0.zk:2181,zk-1.zk:2181,zk-2.zk:2181" -}}
{{- end -}}
{{- if and .Values.auth.secret .Values.auth.keys -}}
{{- fail "auth.secret and auth.keys are both set: set one of them" -}}
{{- end -}}
{{- if and (not (include "postern.hasCredentials" .)) (not .Values.auth.insecure) -}}
{{- fail "there are no API keys and no identity provider: set auth.secret, auth.keys or auth.oidc.issuer, or auth.insecure=true to let everybody who reaches the service do everything" -}}
{{- end -}}
{{- with .Values.auth.oidc -}}
{{- if and .issuer (not .audience) -}}
{{- fail "auth.oidc.issuer needs auth.oidc.audience: a token for somebody else is none for this gateway" -}}
{{- end -}}
{{- if and (not .issuer) (or .audience .jwks .rules) -}}
{{- fail "auth.oidc has settings without auth.oidc.issuer" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.tls.clientCaSecret (not .Values.tls.secret) -}}
{{- fail "tls.clientCaSecret needs tls.secret: without TLS nobody shows a certificate" -}}
{{- end -}}
{{- if and .Values.zookeeper.tls.clientCertificate (not .Values.zookeeper.tls.secret) -}}
{{- fail "zookeeper.tls.clientCertificate needs zookeeper.tls.secret, which has the certificate" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) -}}
{{- fail "ingress.enabled needs ingress.host" -}}
{{- end -}}
{{- end -}}

{{- define "postern.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "postern.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}
