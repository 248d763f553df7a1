"""Creating and deleting topics; each call returns once the whole cluster agrees."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager

from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from offset_ledger.errors import BrokerUnavailable, TopicMismatch, error_line
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.kafka.errors import unavailable
from offset_ledger.outside.kafka.python_client import kafka_python_arguments

TIMEOUT_SECONDS = 30.0


def create_topic(
    extra: Mapping[str, str],
    name: str,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str] | None = None,
) -> bool:
    """Create the topic and return when every partition has a leader; False if it existed with these partitions.

    Raises:
        TopicMismatch: it exists with other partitions, or the cluster refuses these settings.
        BrokerUnavailable: no answer, or no leaders in time.
    """
    asked = {"num_partitions": partitions, "replication_factor": replication_factor, "configs": dict(configs or {})}
    with _admin(extra) as admin:
        try:
            admin.create_topics({name: dict(asked)})
            created = True
        except kafka_errors.TopicAlreadyExistsError:
            created = False
        except (
            kafka_errors.InvalidTopicError,
            kafka_errors.InvalidPartitionsError,
            kafka_errors.InvalidReplicationFactorError,
            kafka_errors.InvalidConfigurationError,
        ) as error:
            raise TopicMismatch(
                f"topic {name!r} cannot be created with {asked} ({error_line(error)}); "
                "ask for no more replicas than there are brokers, and for names and settings that Kafka knows"
            ) from error
        expectation = f"topic {name!r} should have a leader for every partition"
        existing = _poll(lambda: _led_partitions(admin, name), expectation)
    if existing != partitions:
        raise TopicMismatch(
            f"topic {name!r} should have {partitions} partitions and has {existing}; delete it or choose another name"
        )
    return created


def delete_topic(extra: Mapping[str, str], name: str) -> bool:
    """Delete the topic and return when the cluster no longer lists it; False if there was none.

    Raises:
        BrokerUnavailable: no answer, or the topic is still listed after 30 s.
    """
    with _admin(extra) as admin:
        try:
            admin.delete_topics([name])
        except kafka_errors.UnknownTopicOrPartitionError:
            return False
        unknown = kafka_errors.UnknownTopicOrPartitionError.errno
        expectation = f"topic {name!r} was deleted and should not be listed"
        _poll(lambda: int(admin.describe_topics([name])[0]["error_code"] == unknown), expectation)
    return True


def _led_partitions(admin: KafkaAdminClient, name: str) -> int:
    """Return how many partitions there are; 0 while one of them has no leader."""
    (described,) = admin.describe_topics([name])
    partitions = [] if described["error_code"] else described["partitions"]
    led = all(partition["error_code"] == 0 and partition["leader_id"] >= 0 for partition in partitions)
    return len(partitions) if led else 0


def _poll(ask: Callable[[], int], expectation: str) -> int:
    retrying = Retrying(
        retry=retry_if_result(lambda result: not result), stop=stop_after_delay(TIMEOUT_SECONDS), wait=wait_fixed(0.05)
    )
    try:
        return retrying(ask)
    except RetryError:
        raise BrokerUnavailable(
            f"{expectation}; after {TIMEOUT_SECONDS:.0f} s that is not so: check the brokers and the controller"
        ) from None


@contextmanager
def _admin(extra: Mapping[str, str]) -> Iterator[KafkaAdminClient]:
    try:
        arguments = kafka_python_arguments(Connection("publisher", "kafka", extra=extra))
        with closing(KafkaAdminClient(**arguments)) as admin:
            yield admin
    except kafka_errors.KafkaError as error:
        raise unavailable(extra["bootstrap.servers"], error) from error
