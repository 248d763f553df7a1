"""One connection, as each Kafka client takes it."""

from __future__ import annotations

import base64
from urllib.parse import parse_qs, urlsplit

import pytest

from offset_ledger.errors import ConfigurationError
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.kafka.connection import kafka_python_settings, librdkafka_arguments
from offset_ledger.outside.kafka.tokens import current_token

OIDC = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "https://id.example.com/token",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": 'a "secret"',
    "sasl.oauthbearer.scope": "kafka",
    "sasl.oauthbearer.extensions": "logicalCluster=lkc-1, identityPoolId=pool-2",
}
MSK = "b-1.shop.x1.c2.kafka.eu-west-1.amazonaws.com:9098"


def connection(**extra: str) -> Connection:
    given = {"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL", **extra}
    return Connection("k", "kafka", extra=given)


def test_client_credentials() -> None:
    given = connection(**OIDC)
    common = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
    assert kafka_python_settings(given) == {"bootstrap_servers": ["a:1"], **common}
    assert librdkafka_arguments(given) == {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "OAUTHBEARER",
        "ssl.endpoint.identification.algorithm": "https",
    }


def test_msk_iam() -> None:
    given = connection(**{"bootstrap.servers": MSK, "sasl.mechanism": "AWS_MSK_IAM", "aws.role.arn": "arn:r"})
    assert kafka_python_settings(given)["sasl_mechanism"] == "OAUTHBEARER"
    assert librdkafka_arguments(given)["sasl.mechanisms"] == "OAUTHBEARER"


def test_msk_iam_signs_for_the_region_of_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aws_msk_iam_sasl_signer", reason="the extra msk is not installed")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    current = current_token(connection(**{"bootstrap.servers": MSK, "sasl.mechanism": "AWS_MSK_IAM"}))
    assert current is not None
    token = current()
    signed = urlsplit(base64.urlsafe_b64decode(token.text + "=" * (-len(token.text) % 4)).decode())
    asked = parse_qs(signed.query)
    assert signed.hostname == "kafka.eu-west-1.amazonaws.com"
    assert asked["Action"] == ["kafka-cluster:Connect"]
    assert asked["X-Amz-Credential"][0].split("/")[0::2] == ["AKIDEXAMPLE", "eu-west-1", "aws4_request"]
    assert "AKIDEXAMPLE" not in repr(token)


def test_kerberos() -> None:
    keys = {
        "sasl.kerberos.service.name": "broker",
        "sasl.kerberos.principal": "me@SHOP",
        "sasl.kerberos.keytab": __file__,
    }
    given = connection(**{"sasl.mechanism": "GSSAPI", **keys})
    assert kafka_python_settings(given) == {
        "bootstrap_servers": ["a:1"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "broker",
    }
    with pytest.raises(ConfigurationError, match="has no Kerberos"):
        librdkafka_arguments(given)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"sasl.mechanism": "NTLM"}, r"sasl\.mechanism should be one of PLAIN, .*, found 'NTLM'"),
        ({}, r"SASL_SSL needs sasl\.mechanism"),
        ({"sasl.mechanism": "OAUTHBEARER"}, r"needs sasl\.oauthbearer\.method, .*endpoint\.url, .*id, .*secret"),
        ({**OIDC, "sasl.oauthbearer.method": "default"}, r"method should be oidc, found 'default'"),
        ({**OIDC, "sasl.oauthbearer.config": "principal=me"}, r"sasl\.oauthbearer\.config is not supported with"),
        ({**OIDC, "sasl.oauthbearer.extensions": "a b"}, "extensions should be name=value"),
        ({**OIDC, "sasl.oauthbearer.token.endpoint.url": "https://u:p@id/token"}, "without a login in it"),
        ({"sasl.mechanism": "AWS_MSK_IAM", "security.protocol": "SASL_PLAINTEXT"}, "needs security.protocol SASL_SSL"),
        ({"security.protocol": "SSL", "ssl.key.location": __file__}, "belong together"),
        ({"security.protocol": "SSL", "ssl.truststore.location": __file__}, r"ssl\.truststore\.location is not"),
    ],
)
def test_what_no_client_takes_is_refused_for_all(extra: dict[str, str], message: str) -> None:
    for translate in (kafka_python_settings, librdkafka_arguments):
        with pytest.raises(ConfigurationError, match=message) as caught:
            translate(connection(**extra))
        assert "secret" not in str(caught.value).replace("client.secret", "")
