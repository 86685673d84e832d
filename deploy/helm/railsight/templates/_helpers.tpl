{{- define "railsight.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "railsight.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "railsight.labels" -}}
{{ include "railsight.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "railsight.image" -}}
{{- if .image.digest }}{{ .image.repository }}@{{ .image.digest }}{{ else }}{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The configuration of all parts: the values of this chart below the settings that are given. */}}
{{- define "railsight.settings" -}}
{{- $kafka := dict "bootstrap" (required "kafka.bootstrap is required: host:port of the brokers" .Values.kafka.bootstrap) "cluster" .Values.kafka.cluster "tls" .Values.kafka.tls "telemetry_partitions" (int .Values.kafka.telemetryPartitions) "pod_partitions" (int .Values.kafka.podPartitions) "replication" (int .Values.kafka.replication) }}
{{- if .Values.kafka.saslMechanism }}
{{- $_ := set $kafka "sasl_mechanism" .Values.kafka.saslMechanism }}
{{- $_ := set $kafka "login_folder" "/etc/railsight/kafka" }}
{{- end }}
{{- if .Values.kafka.caSecret.name }}{{- $_ := set $kafka "ca_file" "/etc/railsight/kafka-ca/ca.crt" }}{{- end }}
{{- $identity := dict }}
{{- if ne .Values.identity.mode "off" }}
{{- $identity = dict "mode" .Values.identity.mode "secret_file" "/etc/railsight/identity/secret" "key_file" "/etc/railsight/identity/key" }}
{{- end }}
{{- $store := dict "url" (required "clickhouse.url is required: https://host:port of ClickHouse" .Values.clickhouse.url) "database" .Values.clickhouse.database "plain_http" .Values.clickhouse.plainHttp }}
{{- if .Values.clickhouse.caSecret.name }}{{- $_ := set $store "ca_file" "/etc/railsight/clickhouse-ca/ca.crt" }}{{- end }}
{{- $notify := dict }}
{{- if .Values.notify.enabled }}
{{- if not .Values.alertmanager.urls }}{{ fail "alertmanager.urls is required while notify.enabled is true" }}{{ end }}
{{- $_ := set $notify "alertmanagers" .Values.alertmanager.urls }}
{{- if .Values.alertmanager.tokenSecret.name }}{{- $_ := set $notify "token_file" "/etc/railsight/alertmanager/token" }}{{- end }}
{{- if .Values.alertmanager.caSecret.name }}{{- $_ := set $notify "ca_file" "/etc/railsight/alertmanager-ca/ca.crt" }}{{- end }}
{{- end }}
{{- $collect := dict }}
{{- range $kind := list "gnmi" "snmp" "bridge" "jobs" "dialout" "syslog" "otlp" "nic" "host" "probe" }}
{{- $values := index $.Values.collectors $kind }}
{{- if $values.enabled }}
{{- $section := deepCopy $values.settings }}
{{- if has $kind (list "gnmi" "snmp") }}
{{- $_ := set $section "targets_file" (printf "/etc/railsight/targets/%s.json" $kind) }}
{{- if not $section.share_group }}{{- $_ := set $section "share_group" $.Values.kafka.cluster }}{{- end }}
{{- end }}
{{- with index (include "railsight.listeners" $ | fromYaml) $kind }}
{{- $_ := set $section "targets" $values.targets }}
{{- if eq $kind "syslog" }}
{{- $inputs := list "udp://0.0.0.0:5514" "tcp://0.0.0.0:5514" }}
{{- if $section.cert_file }}{{- $inputs = append $inputs "tls://0.0.0.0:6514" }}{{- end }}
{{- $_ := set $section "inputs" ($section.inputs | default $inputs) }}
{{- else }}
{{- $_ := set $section "listen" (printf "0.0.0.0:%v" (index . 0).port) }}
{{- end }}
{{- end }}
{{- if eq $kind "probe" }}
{{- $_ := set $section "inventory" "/etc/railsight/inventory" }}
{{- end }}
{{- if $values.spool }}
{{- $_ := set $section "publisher" (mergeOverwrite (dict "spool" "/var/lib/railsight/spool") ($section.publisher | default dict)) }}
{{- end }}
{{- if eq $kind "host" }}
{{- $_ := set $section "state_file" "/var/lib/railsight/spool/host.json" }}
{{- end }}
{{- $_ := set $collect $kind $section }}
{{- end }}
{{- end }}
{{- $locality := dict }}
{{- if .Values.locality.enabled }}
{{- $locality = dict "host" "0.0.0.0" "port" 8790 "token_file" "/etc/railsight/locality/token" "cert_file" "/etc/railsight/locality-tls/tls.crt" "key_file" "/etc/railsight/locality-tls/tls.key" }}
{{- end }}
{{- $runtime := dict "metrics_host" "0.0.0.0" "metrics_port" 9100 "data" "/tmp/railsight" }}
{{- $all := mergeOverwrite (dict "kafka" $kafka "identity" $identity "store" $store "notify" $notify "runtime" $runtime "collect" $collect "locality" $locality) (deepCopy .Values.settings) }}
{{- if .Values.tickets.enabled }}
{{- if not $all.tickets }}{{ fail "tickets.enabled needs settings.tickets (url, kind)" }}{{ end }}
{{- $_ := set $all.tickets "token_file" "/etc/railsight/tickets/token" }}
{{- end }}
{{- toToml $all }}
{{- end }}

{{/* A Secret's key as a volume with the file name `file`. */}}
{{- define "railsight.secretVolume" -}}
- name: {{ .name }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    items: [{key: {{ .key | quote }}, path: {{ .file | quote }}}]
{{- end }}

{{/* The pod of one part. root, part, args; optional: login, values, store (user, secret), alertmanager, ticket, targets,
     secretName, spool, onHost, privileged, device, probes, serviceAccount, serves (port, tokenSecret, tlsSecret),
     listens (ports), inventory (volume source). */}}
{{- define "railsight.pod" -}}
{{- $root := .root }}
{{- $values := .values }}
{{- $identity := "" }}
{{- if ne $root.Values.identity.mode "off" }}
{{- if has .part (list "measure" "decide" "persist") }}{{ $identity = "secret" }}
{{- else if or .onHost (has .kind (list "gnmi" "snmp" "bridge" "dialout" "syslog" "otlp")) }}{{ $identity = .kind }}{{ end }}
{{- end }}
metadata:
  labels:
    {{- include "railsight.labels" . | nindent 4 }}
  annotations:
    checksum/config: {{ include (print $root.Template.BasePath "/configmap.yaml") $root | sha256sum }}
spec:
  automountServiceAccountToken: {{ not (empty .serviceAccount) }}
  {{- with .serviceAccount }}
  serviceAccountName: {{ . }}
  {{- end }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: 20
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- if .once }}
  restartPolicy: OnFailure
  {{- end }}
  {{- if .onHost }}
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  {{- end }}
  {{- with $values.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with $values.nodeSelector | default $root.Values.nodeSelector }}
  nodeSelector: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations | default $root.Values.tolerations }}
  tolerations: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.affinity }}
  affinity: {{ toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: {{ not .privileged }}
    runAsUser: {{ ternary 0 10001 (.privileged | default false) }}
    runAsGroup: {{ ternary 0 10001 (.privileged | default false) }}
    fsGroup: 10001
    seccompProfile: {type: {{ ternary "Unconfined" "RuntimeDefault" (.privileged | default false) }}}
  containers:
    - name: {{ .part }}
      image: {{ include "railsight.image" (dict "root" $root "image" $root.Values.image) | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: {{ toJson .args }}
      env:
        {{- if .store }}
        - {name: RAILSIGHT__STORE__USER, value: {{ .store.user | quote }}}
        - {name: RAILSIGHT__STORE__PASSWORD_FILE, value: /etc/railsight/clickhouse/password}
        {{- end }}
        {{- if .device }}
        - {name: {{ printf "RAILSIGHT__COLLECT__%s__DEVICE" (upper .device) }}, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        {{- end }}
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        {{- with $root.Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if not .once }}
      ports:
        - {name: metrics, containerPort: {{ .port | default 9100 }}}
        {{- with .serves }}
        - {name: https, containerPort: {{ .port }}}
        {{- end }}
        {{- range .listens }}
        - {name: {{ .name }}, protocol: {{ .protocol | default "TCP" }}, containerPort: {{ .port }}}
        {{- end }}
      startupProbe: {httpGet: {path: /livez, port: metrics}, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 24}
      livenessProbe: {httpGet: {path: /livez, port: metrics}, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 3}
      readinessProbe: {httpGet: {path: /readyz, port: metrics}, periodSeconds: 5, timeoutSeconds: 5}
      {{- end }}
      resources: {{ toYaml $values.resources | nindent 8 }}
      securityContext:
        readOnlyRootFilesystem: true
        {{- if .privileged }}
        privileged: true
        {{- else }}
        allowPrivilegeEscalation: false
        capabilities: {drop: [ALL]}
        {{- end }}
      volumeMounts:
        - {name: config, mountPath: /etc/railsight/railsight.toml, subPath: railsight.toml, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- if $root.Values.kafka.saslMechanism }}
        - {name: kafka, mountPath: /etc/railsight/kafka, readOnly: true}
        {{- end }}
        {{- if and $identity .onHost }}
        - {name: identity, mountPath: /etc/railsight/identity/key, readOnly: true}
        {{- else if $identity }}
        - {name: identity, mountPath: /etc/railsight/identity, readOnly: true}
        {{- end }}
        {{- if $root.Values.kafka.caSecret.name }}
        - {name: kafka-ca, mountPath: /etc/railsight/kafka-ca, readOnly: true}
        {{- end }}
        {{- if .store }}
        - {name: clickhouse, mountPath: /etc/railsight/clickhouse, readOnly: true}
        {{- if $root.Values.clickhouse.caSecret.name }}
        - {name: clickhouse-ca, mountPath: /etc/railsight/clickhouse-ca, readOnly: true}
        {{- end }}
        {{- end }}
        {{- if .alertmanager }}
        {{- if $root.Values.alertmanager.tokenSecret.name }}
        - {name: alertmanager, mountPath: /etc/railsight/alertmanager, readOnly: true}
        {{- end }}
        {{- if $root.Values.alertmanager.caSecret.name }}
        - {name: alertmanager-ca, mountPath: /etc/railsight/alertmanager-ca, readOnly: true}
        {{- end }}
        {{- end }}
        {{- if .ticket }}
        - {name: tickets, mountPath: /etc/railsight/tickets, readOnly: true}
        {{- end }}
        {{- if .serves }}
        - {name: locality, mountPath: /etc/railsight/locality, readOnly: true}
        - {name: locality-tls, mountPath: /etc/railsight/locality-tls, readOnly: true}
        {{- end }}
        {{- if .targets }}
        - {name: targets, mountPath: /etc/railsight/targets, readOnly: true}
        {{- end }}
        {{- if .inventory }}
        - {name: inventory, mountPath: /etc/railsight/inventory, readOnly: true}
        {{- end }}
        {{- if .secretName }}
        - {name: device-secrets, mountPath: {{ printf "/etc/railsight/%s" .kind }}, readOnly: true}
        {{- end }}
        {{- if .spool }}
        - {name: spool, mountPath: /var/lib/railsight/spool}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "railsight.name" $root }}}
    - name: tmp
      emptyDir: {sizeLimit: 256Mi}
    {{- if $root.Values.kafka.saslMechanism }}
    {{- include "railsight.secretVolume" (dict "name" "kafka" "secret" (required "kafka.loginSecret is required with a saslMechanism" $root.Values.kafka.loginSecret) "key" .login "file" .login) | nindent 4 }}
    {{- end }}
    {{- if and $identity .onHost }}
    - name: identity
      hostPath: {path: {{ $root.Values.identity.hostKeyFile }}, type: File}
    {{- else if $identity }}
    {{- include "railsight.secretVolume" (dict "name" "identity" "secret" $root.Values.identity.secretName "key" $identity "file" (ternary "secret" "key" (eq $identity "secret"))) | nindent 4 }}
    {{- end }}
    {{- with $root.Values.kafka.caSecret }}
    {{- if .name }}
    {{- include "railsight.secretVolume" (dict "name" "kafka-ca" "secret" .name "key" .key "file" "ca.crt") | nindent 4 }}
    {{- end }}
    {{- end }}
    {{- if .store }}
    {{- include "railsight.secretVolume" (dict "name" "clickhouse" "secret" .store.secret.name "key" .store.secret.key "file" "password") | nindent 4 }}
    {{- with $root.Values.clickhouse.caSecret }}
    {{- if .name }}
    {{- include "railsight.secretVolume" (dict "name" "clickhouse-ca" "secret" .name "key" .key "file" "ca.crt") | nindent 4 }}
    {{- end }}
    {{- end }}
    {{- end }}
    {{- if .alertmanager }}
    {{- with $root.Values.alertmanager.tokenSecret }}
    {{- if .name }}
    {{- include "railsight.secretVolume" (dict "name" "alertmanager" "secret" .name "key" .key "file" "token") | nindent 4 }}
    {{- end }}
    {{- end }}
    {{- with $root.Values.alertmanager.caSecret }}
    {{- if .name }}
    {{- include "railsight.secretVolume" (dict "name" "alertmanager-ca" "secret" .name "key" .key "file" "ca.crt") | nindent 4 }}
    {{- end }}
    {{- end }}
    {{- end }}
    {{- if .ticket }}
    {{- include "railsight.secretVolume" (dict "name" "tickets" "secret" $root.Values.tickets.tokenSecret.name "key" $root.Values.tickets.tokenSecret.key "file" "token") | nindent 4 }}
    {{- end }}
    {{- with .serves }}
    {{- include "railsight.secretVolume" (dict "name" "locality" "secret" .tokenSecret.name "key" .tokenSecret.key "file" "token") | nindent 4 }}
    - name: locality-tls
      secret: {secretName: {{ .tlsSecret }}, defaultMode: 0440}
    {{- end }}
    {{- if .targets }}
    - name: targets
      configMap: {name: {{ include "railsight.name" $root }}-targets}
    {{- end }}
    {{- with .inventory }}
    - name: inventory
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- if .secretName }}
    - name: device-secrets
      secret: {secretName: {{ .secretName }}, defaultMode: 0440}
    {{- end }}
    {{- if .spool }}
    - name: spool
      {{- if .onHost }}
      hostPath: {path: {{ printf "/var/lib/railsight/%s" .kind }}, type: DirectoryOrCreate}
      {{- else }}
      emptyDir: {sizeLimit: {{ .spool }}}
      {{- end }}
    {{- end }}
{{- end }}

{{/* A Deployment of one part: the arguments of railsight.pod, and replicas. */}}
{{- define "railsight.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "railsight.name" .root }}-{{ .part }}
  labels: {{ include "railsight.labels" . | nindent 4 }}
spec:
  {{- if not (and .values.autoscaling .values.autoscaling.enabled) }}
  replicas: {{ .replicas | default 1 }}
  {{- end }}
  revisionHistoryLimit: 3
  # A worker beyond the number of partitions is never ready: no surge.
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}
  selector:
    matchLabels: {{ include "railsight.selector" . | nindent 6 }}
  template: {{ include "railsight.pod" . | nindent 4 }}
{{- end }}
