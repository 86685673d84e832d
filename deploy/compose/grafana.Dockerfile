# Grafana with the plugin of its data source, whose archive must have the digest that pin.sh recorded: nothing is
# downloaded at a start.
ARG IMAGE
FROM ${IMAGE}
ARG PLUGIN=grafana-clickhouse-datasource
ARG PLUGIN_VERSION=4.14.0
ARG PLUGIN_SHA256
USER root
RUN wget -q -O /tmp/plugin.zip "https://grafana.com/api/plugins/${PLUGIN}/versions/${PLUGIN_VERSION}/download?os=linux&arch=$(case "$(uname -m)" in aarch64) echo arm64;; *) echo amd64;; esac)" \
    && echo "${PLUGIN_SHA256}  /tmp/plugin.zip" | sha256sum -c - \
    && mkdir -p /opt/grafana-plugins \
    && unzip -q /tmp/plugin.zip -d /opt/grafana-plugins \
    && rm /tmp/plugin.zip
USER 472:472
