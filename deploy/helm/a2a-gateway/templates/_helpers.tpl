{{- define "a2a-gateway.name" -}}
{{- if eq .Release.Name .Chart.Name }}{{ .Chart.Name }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
{{- end -}}

{{- define "a2a-gateway.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "a2a-gateway.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{ include "a2a-gateway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "a2a-gateway.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "a2a-gateway.isRedis" -}}
{{- if eq .Values.state.kind "redis" }}true{{ end -}}
{{- end -}}

{{/* How many gateways may serve at a time: the limits of tenants are divided by it. */}}
{{- define "a2a-gateway.replicas" -}}
{{- if not (include "a2a-gateway.isRedis" .) }}1{{ else if .Values.autoscaling.enabled }}{{ .Values.autoscaling.maxReplicas }}{{ else }}{{ .Values.replicaCount }}{{ end -}}
{{- end -}}

{{/* gateway.yaml: `config` and what follows from other values. */}}
{{- define "a2a-gateway.config" -}}
{{- if not .Values.config }}{{ fail "config: write the configuration of the gateway (examples/), or name existingSecret" }}{{ end -}}
{{- $gateway := dict
  "listen" "0.0.0.0:8080"
  "admin" (dict "listen" "0.0.0.0:9090" "token" "${file:/run/secrets/a2a-gateway-admin/token}")
  "drain" (dict "delay" (printf "%ds" (int .Values.drain.delaySeconds)) "timeout" (printf "%ds" (int .Values.drain.timeoutSeconds))) -}}
{{- if .Values.grpc.enabled }}{{ $_ := set $gateway "listen_grpc" "0.0.0.0:8081" }}{{ end -}}
{{- if include "a2a-gateway.isRedis" . -}}
{{- $_ := set $gateway "state" "${file:/run/secrets/a2a-gateway-state/url}" -}}
{{- $_ := set $gateway "replicas" (include "a2a-gateway.replicas" . | int) -}}
{{- end -}}
{{- mergeOverwrite (deepCopy .Values.config) (dict "gateway" $gateway) | toYaml -}}
{{- end -}}

{{/* The pod, of the StatefulSet or the Deployment. */}}
{{- define "a2a-gateway.pod" -}}
metadata:
  labels:
    {{- include "a2a-gateway.labels" . | nindent 4 }}
  annotations:
    kubectl.kubernetes.io/default-container: a2a-gateway
    {{- if not .Values.existingSecret }}
    # Running pods take up changed agents, tenants and callers by themselves. Settings that need a restart are in these
    # two parts, so only a change there replaces the pods.
    {{- $config := include "a2a-gateway.config" . | fromYaml }}
    checksum/restart: {{ pick $config "gateway" "observe" | toJson | sha256sum }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ add .Values.drain.preStopSeconds .Values.drain.delaySeconds .Values.drain.timeoutSeconds 10 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: { type: RuntimeDefault }
  {{- range $name := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" }}
  {{- with get $.Values $name }}
  {{ $name }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    - labelSelector:
        matchLabels:
          {{- include "a2a-gateway.selector" $ | nindent 10 }}
      {{- toYaml . | nindent 6 }}
    {{- end }}
  {{- end }}
  containers:
    - name: a2a-gateway
      image: {{ include "a2a-gateway.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve, -c, /etc/a2a-gateway/gateway.yaml]
      {{- with .Values.env }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - { name: http, containerPort: 8080 }
        {{- if .Values.grpc.enabled }}
        - { name: grpc, containerPort: 8081 }
        {{- end }}
        - { name: admin, containerPort: 9090 }
      {{- with .Values.drain.preStopSeconds }}
      lifecycle:
        preStop: { sleep: { seconds: {{ . }} } }
      {{- end }}
      startupProbe:
        httpGet: { path: /-/live, port: http }
        periodSeconds: 1
        failureThreshold: 30
      # Strangers cannot reach this port: connections that fill the clients' port must not have the pod restarted.
      livenessProbe:
        httpGet: { path: /-/live, port: admin }
        periodSeconds: 10
        timeoutSeconds: 3
      readinessProbe:
        httpGet: { path: /-/ready, port: http }
        periodSeconds: 2
        timeoutSeconds: 2
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      volumeMounts:
        # The directory, not a subPath of it: changes reach a directory only.
        - { name: config, mountPath: /etc/a2a-gateway, readOnly: true }
        - { name: admin-token, mountPath: /run/secrets/a2a-gateway-admin, readOnly: true }
        {{- if include "a2a-gateway.isRedis" . }}
        - { name: state-url, mountPath: /run/secrets/a2a-gateway-state, readOnly: true }
        {{- else }}
        # STATE_DIRECTORY of the image.
        - { name: state, mountPath: /var/lib/a2a-gateway }
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      {{- with .Values.existingSecret }}
      secret: { secretName: {{ . }} }
      {{- else }}
      configMap: { name: {{ include "a2a-gateway.name" . }} }
      {{- end }}
    - name: admin-token
      secret: { secretName: {{ .Values.admin.existingSecret }} }
    {{- if include "a2a-gateway.isRedis" . }}
    - name: state-url
      secret: { secretName: {{ required "state.redis.existingSecret: name a Secret with the URL of the Redis" .Values.state.redis.existingSecret }} }
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
