{{/* The collectors that listen: the ports of each, and of its Service where they differ. */}}
{{- define "railsight.listeners" -}}
dialout: [{name: devices, port: 57500}]
otlp: [{name: grpc, port: 4317}, {name: http, port: 4318}]
syslog:
  - {name: udp, protocol: UDP, port: 5514, service: 514}
  - {name: tcp, port: 5514, service: 514}
  - {name: tls, port: 6514}
{{- end }}
{{/* The enabled parts with a health port, as JSON: name, and port. */}}
{{- define "railsight.parts" -}}
{{- $parts := list }}
{{- range list "measure" "correlate" "attribute" "decide" }}{{- $parts = append $parts (dict "name" . "port" 9100 "deployment" true) }}{{- end }}
{{- range list "persist" "notify" "tickets" "locality" }}
{{- if (index $.Values .).enabled }}{{- $parts = append $parts (dict "name" . "port" 9100 "deployment" true) }}{{- end }}
{{- end }}
{{- range list "gnmi" "snmp" "bridge" "jobs" "dialout" "syslog" "otlp" }}
{{- if (index $.Values.collectors .).enabled }}{{- $parts = append $parts (dict "name" (printf "collect-%s" .) "port" 9100 "deployment" true) }}{{- end }}
{{- end }}
{{- if .Values.automation.enabled }}{{- $parts = append $parts (dict "name" "automation" "port" 9100 "deployment" false) }}{{- end }}
{{- if .Values.collectors.nic.enabled }}{{- $parts = append $parts (dict "name" "collect-nic" "port" 9101 "deployment" false) }}{{- end }}
{{- if .Values.collectors.host.enabled }}{{- $parts = append $parts (dict "name" "collect-host" "port" 9102 "deployment" false) }}{{- end }}
{{- if .Values.collectors.probe.enabled }}{{- $parts = append $parts (dict "name" "collect-probe" "port" 9103 "deployment" false) }}{{- end }}
{{- toJson $parts }}
{{- end }}
