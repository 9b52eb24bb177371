{{- /*
The container of `postern sidecar`, for the `initContainers` of a pod template. README.md lists the values.

      initContainers:
        {{- include "postern.sidecar" .Values.sidecar | nindent 8 }}
*/ -}}
{{- define "postern.sidecar" -}}
{{- $known := list "image" "url" "apiKeySecret" "health" "elect" "value" "groups" "args" "probesPort" "waitForGateway" "env" "volumeMounts" "resources" -}}
{{- range $name, $_ := . -}}
{{- if not (has $name $known) -}}
{{- fail (printf "postern.sidecar: there is no value %q; there are %s" $name (join ", " $known)) -}}
{{- end -}}
{{- end -}}
{{- range list "image" "url" "health" -}}
{{- if not (get $ .) -}}
{{- fail (printf "postern.sidecar: %s is empty" .) -}}
{{- end -}}
{{- end -}}
{{- $probesPort := default 7072 .probesPort | int -}}
- name: postern
  image: {{ .image | quote }}
  restartPolicy: Always
  command: [/nodejs/bin/node, /app/dist/command/main.js, sidecar]
  args:
    - --health
    - {{ .health | quote }}
    - --label
    - $(POD_NAME)
    - --listen-probes
    - 0.0.0.0:{{ $probesPort }}
    {{- with .elect }}
    - --elect
    - {{ . | quote }}
    {{- end }}
    {{- with .value }}
    - --value
    - {{ . | quote }}
    {{- end }}
    {{- range .groups }}
    - --group
    - {{ . | quote }}
    {{- end }}
    {{- range .args }}
    - {{ . | quote }}
    {{- end }}
  env:
    - name: POD_NAME
      valueFrom: { fieldRef: { fieldPath: metadata.name } }
    - name: POD_IP
      valueFrom: { fieldRef: { fieldPath: status.podIP } }
    - { name: POSTERN_URL, value: {{ .url | quote }} }
    {{- with .apiKeySecret }}
    - name: POSTERN_API_KEY
      valueFrom: { secretKeyRef: { name: {{ . | quote }}, key: api-key } }
    {{- end }}
    {{- with .env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - { name: postern-probes, containerPort: {{ $probesPort }} }
  startupProbe:
    httpGet: { path: {{ ternary "/readyz" "/healthz" (default false .waitForGateway) }}, port: postern-probes }
    periodSeconds: 1
    timeoutSeconds: 2
    failureThreshold: 60
  livenessProbe:
    httpGet: { path: /healthz, port: postern-probes }
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 3
  {{- with .volumeMounts }}
  volumeMounts:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: { drop: [ALL] }
  resources:
    {{- toYaml (default (dict "requests" (dict "cpu" "20m" "memory" "64Mi") "limits" (dict "memory" "128Mi")) .resources) | nindent 4 }}
{{- end -}}
