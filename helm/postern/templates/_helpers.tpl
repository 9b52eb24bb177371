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

{{- /* The names under which the service is asked for: without credentials a request for any other is refused. */ -}}
{{- define "postern.allowedHosts" -}}
{{- $name := include "postern.fullname" . -}}
{{- $inNamespace := printf "%s.%s" $name .Release.Namespace -}}
{{- $names := list $name $inNamespace (printf "%s.svc" $inNamespace) (printf "%s.svc.cluster.local" $inNamespace) -}}
{{- if .Values.ingress.host -}}
{{- $names = append $names .Values.ingress.host -}}
{{- end -}}
{{- join "," (concat $names .Values.auth.allowedHosts) -}}
{{- end -}}

{{- /* The ports of ZooKeeper: those that are given, or else those of the connect string, one a line. */ -}}
{{- define "postern.zookeeperPorts" -}}
{{- $ports := .Values.networkPolicy.zookeeper.ports -}}
{{- if not $ports -}}
{{- $strings := list .Values.zookeeper.connectString -}}
{{- range (.Values.zookeeper.ensembles).ensembles -}}
{{- $strings = append $strings .zookeeper -}}
{{- end -}}
{{- range $strings -}}
{{- range splitList "," (regexReplaceAll "/.*" . "") -}}
{{- $ports = append $ports (default "2181" (regexFind ":[0-9]+$" . | trimPrefix ":") | int) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range uniq $ports }}
- { protocol: TCP, port: {{ . }} }
{{- end -}}
{{- end -}}

{{- /* A number without an exponent; empty when there is none, which the gateway takes as its default. */ -}}
{{- define "postern.integer" -}}
{{- if not (kindIs "invalid" .) -}}
{{ int64 . }}
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
{{- fail "there are no API keys and no identity provider: set auth.secret, auth.keys or auth.oidc.issuer, or auth.insecure=true to let everybody who can reach the service do everything" -}}
{{- end -}}
{{- if not (or .Values.leaseKeys.secret .Values.zookeeper.authSecret .Values.auth.insecure) -}}
{{- fail "anyone who can reach ZooKeeper could read the key that seals lease tokens, and forge the lease token of any principal: set leaseKeys.secret or zookeeper.authSecret, or auth.insecure=true if nobody else can reach ZooKeeper" -}}
{{- end -}}
{{- with .Values.auth.oidc -}}
{{- if and .issuer (not .audience) -}}
{{- fail "auth.oidc.issuer needs auth.oidc.audience: a token that was issued for another service must not be accepted by this gateway" -}}
{{- end -}}
{{- if and (not .issuer) (or .audience .jwks .rules) -}}
{{- fail "auth.oidc has settings without auth.oidc.issuer" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.tls.clientCaSecret (not .Values.tls.secret) -}}
{{- fail "tls.clientCaSecret needs tls.secret: without TLS no client presents a certificate" -}}
{{- end -}}
{{- if and .Values.zookeeper.tls.clientCertificate (not .Values.zookeeper.tls.secret) -}}
{{- fail "zookeeper.tls.clientCertificate needs zookeeper.tls.secret, which has the certificate" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) -}}
{{- fail "ingress.enabled needs ingress.host" -}}
{{- end -}}
{{- with .Values.networkPolicy -}}
{{- if and .enabled (not .clients) (or $.Values.ingress.enabled (ne $.Values.service.type "ClusterIP")) -}}
{{- fail "with ingress.enabled, or a service.type that is reachable from elsewhere, networkPolicy.clients must name who calls (the pods of the ingress controller, or an ipBlock), or networkPolicy.enabled be false" -}}
{{- end -}}
{{- if and .enabled (not .scrapers) $.Values.serviceMonitor.enabled -}}
{{- fail "with serviceMonitor.enabled networkPolicy.scrapers must name the pods of Prometheus, or networkPolicy.enabled be false" -}}
{{- end -}}
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
