#!/usr/bin/env bash
# Builds the programs of others that tests of OTLP use: an OpenTelemetry Collector, telemetrygen, gnmic and Prometheus.
#
# They are put into the folder that is named; those already there stay. Needs git, and Go 1.26 with its module proxy.
set -euo pipefail

CORE=go.opentelemetry.io/collector
CONTRIB=github.com/open-telemetry/opentelemetry-collector-contrib
VERSION=0.161.0
PROVIDERS=1.67.0
GNMIC=0.47.0
PROMETHEUS=0.316.0 # the module of Prometheus 3.16

if [ "$#" -ne 1 ]; then
    echo "usage: deploy/otlp_peers.sh FOLDER" >&2
    exit 2
fi
for program in go git; do
    if ! command -v "$program" >/dev/null; then
        echo "deploy/otlp_peers.sh: $program is not installed" >&2
        exit 1
    fi
done
mkdir -p "$1"
out=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

is_missing() {
    [ ! -x "$out/$1" ]
}

# Builds a package in a module of its own, because `go install` refuses a module that has replace directives.
build() {
    local name=$1 package=$2 version=$3
    shift 3
    mkdir "$name"
    (
        cd "$name"
        go mod init "peers/$name"
        go get "$package@v$version"
        go build -trimpath "$@" -o "$out/$name" "$package"
    )
}

if is_missing otelcol; then
    cat >builder.yaml <<YAML
dist: {name: otelcol, output_path: ./otelcol, version: $VERSION}
receivers:
  - gomod: $CORE/receiver/otlpreceiver v$VERSION
exporters:
  - gomod: $CORE/exporter/otlpexporter v$VERSION
  - gomod: $CORE/exporter/otlphttpexporter v$VERSION
  - gomod: $CONTRIB/exporter/fileexporter v$VERSION
providers:
  - gomod: $CORE/confmap/provider/fileprovider v$PROVIDERS
  - gomod: $CORE/confmap/provider/yamlprovider v$PROVIDERS
conf_resolver: {default_uri_scheme: file}
YAML
    go run "$CORE/cmd/builder@v$VERSION" --config builder.yaml
    mv otelcol/otelcol "$out"
fi
if is_missing telemetrygen; then
    build telemetrygen "$CONTRIB/cmd/telemetrygen" "$VERSION"
fi
# Its module needs a package of its repository that is newer than the published one.
if is_missing gnmic; then
    git clone --quiet --depth 1 --branch "v$GNMIC" https://github.com/openconfig/gnmic gnmic
    (cd gnmic && go build -trimpath -o "$out/gnmic" .)
fi
if is_missing prometheus; then
    build prometheus github.com/prometheus/prometheus/cmd/prometheus "$PROMETHEUS" -tags remove_all_sd
fi
