#!/usr/bin/env bash
# Makes what compose.yaml hands to its containers, each once: passwords, keys, the certificate of Kafka, and its users.
#
# What is there is kept. For a new certificate remove secrets/kafka_keystore, secrets/kafka_ca and run it again; for new
# users of Kafka remove secrets/kafka_*. Containers run as users of their own, so a file is readable to all, inside a
# folder that only its owner can enter.
set -euo pipefail

folder=$(realpath "$(dirname "$0")")/secrets
parts="admin collector bridge probe measure correlate attribute decide persist notify tickets jobs locality automation operator reader"
mkdir -p "$folder"
chmod 700 "$folder"
umask 077

keep() { # NAME: standard input becomes the file
    cat >"$folder/$1"
    chmod 444 "$folder/$1"
    echo "made $folder/$1"
}

for name in clickhouse_password clickhouse_reader_password grafana_admin_password locality_token kafka_broker \
    $(printf 'kafka_%s ' $parts); do
    [ -s "$folder/$name" ] || od -An -N24 -tx1 /dev/urandom | tr -d ' \n' | keep "$name"
done

# The identity of telemetry, as `railsight key secret` and `railsight key issue` make it. For a new secret remove
# secrets/identity_*, run this again and restart all containers.
[ -s "$folder/identity_secret" ] || od -An -N32 -tx1 /dev/urandom | tr -d ' \n' | keep identity_secret
mac() { openssl dgst -sha256 -mac HMAC -macopt "hexkey:$(cat "$folder/identity_secret")" -r | cut -c1-64; }
issue() { # FILE PRINCIPAL
    [ -s "$folder/$1" ] || printf '%s %s %s\n' "$2" "$(printf 'railsight secret id' | mac | cut -c1-8)" \
        "$(printf 'railsight principal\0%s' "$2" | mac)" | keep "$1"
}
issue identity_collector 'collector/*'
issue identity_bridge 'bridge/*'
issue identity_host "host/$(hostname)"

if [ ! -s "$folder/kafka_keystore" ] || [ ! -s "$folder/kafka_ca" ]; then
    # The key of the authority is not kept: it signs this one certificate.
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    new_key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null; }
    new_key "$work/ca.key"
    new_key "$work/kafka.key"
    openssl req -x509 -new -key "$work/ca.key" -days 3650 -subj "/CN=railsight compose" -out "$work/ca.crt"
    openssl req -new -key "$work/kafka.key" -subj "/CN=kafka" -out "$work/kafka.csr"
    openssl x509 -req -in "$work/kafka.csr" -CA "$work/ca.crt" -CAkey "$work/ca.key" -CAcreateserial -days 3650 \
        -extfile <(printf 'subjectAltName=DNS:kafka,DNS:localhost,IP:127.0.0.1\n') -out "$work/kafka.crt" 2>/dev/null
    cat "$work/kafka.key" "$work/kafka.crt" "$work/ca.crt" | keep kafka_keystore
    keep kafka_ca <"$work/ca.crt"
fi

if [ ! -s "$folder/kafka_properties" ]; then
    module="org.apache.kafka.common.security.plain.PlainLoginModule required"
    broker=$(cat "$folder/kafka_broker")
    own="$module username=\"broker\" password=\"$broker\" user_broker=\"$broker\""
    users=$own
    for part in $parts; do
        users="$users user_railsight-$part=\"$(cat "$folder/kafka_$part")\""
    done
    keep kafka_properties <<PROPERTIES
listener.security.protocol.map=INTERNAL:SASL_SSL,HOST:SASL_SSL,CONTROLLER:SASL_PLAINTEXT
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.internal.sasl.enabled.mechanisms=PLAIN
listener.name.internal.plain.sasl.jaas.config=$users;
listener.name.host.sasl.enabled.mechanisms=PLAIN
listener.name.host.plain.sasl.jaas.config=$users;
listener.name.controller.sasl.enabled.mechanisms=PLAIN
listener.name.controller.plain.sasl.jaas.config=$own;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:broker;User:railsight-admin
allow.everyone.if.no.acl.found=false
ssl.keystore.type=PEM
ssl.keystore.location=/run/secrets/kafka_keystore
ssl.truststore.type=PEM
ssl.truststore.location=/run/secrets/kafka_ca
ssl.client.auth=none
PROPERTIES
    keep kafka_health <<PROPERTIES
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config=$module username="railsight-reader" password="$(cat "$folder/kafka_reader")";
ssl.truststore.type=PEM
ssl.truststore.location=/run/secrets/kafka_ca
PROPERTIES
fi
