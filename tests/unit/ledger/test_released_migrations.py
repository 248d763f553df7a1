"""A migration that was released never changes: ledgers that have applied it would differ from new ones."""

from __future__ import annotations

from hashlib import sha256

from offset_ledger.ledger.database import migrations

RELEASED = {  # name -> SHA-256; a release adds its own
    "0001_ledger": "09c99ce6d07d91693426b8d515212f8291a26901902b2277cad3f5cfc5c50542",
    "0002_redrive": "be78396133ea36bfcbdd57796937f4fbaec5b659094c7fb16b154e04e726395f",
    "0003_dead_letters": "204da6b58f1675b4c8f9ccdf02b0d0bf821e60698ae4af08dd9f1d27f8140403",
    "0004_quality": "6a1c6fd66c1632ed5b0d694bbe81b21ec46794d1e7a224fc6e7ad3a520942529",
    "0005_decisions": "bd21a42baca20d370ed61700d8776dedcc860add6aa8dbd6540fbf49e3a058a4",
    "0006_audit": "b331c3fff09c7796d938a96ea15e73e76e74ea1f542c36f0c49901636747f5c3",
    "0007_audit_origin": "3df84e39f56778a1844260289b0a6025a48b5f9a65421f998203899bf640b66e",
    "0008_truncated_log": "de40e53adb597cd46165c033f49883d6a2d89665f6fe3daa59fbad4c30d4f342",
    "0009_order_of_rows": "6410722ccbd3d9165c3a61b8839bb19a58f77bad85dde692e56fadb37eacb7b3",
    "0010_tombstones": "b98d30d6ee2de4132ba1ac057fe7014d42ef639e04fc90eebb3ea66a732e2467",
    "0011_approval": "b6a3c9910630a053b2025ee8bca0e08fb98e4b4b80b2909e11003a87eb89ead7",
    "0012_declared_columns": "6653f0239845373da6da5c3e5a099874c8b16ca46fc3614c03739afd1baac637",
    "0014_verify_and_dismiss": "3e97e5e55b51c35fce47c8c325862b59c8f9868f09f2d095d147a3fc46cdeb25",
    "0015_records_without_timestamp": "b3bc4691c3894695953e0ca211718c3e368f12aaa43b6551fed404cb3d150693",
    "0016_long_history": "71e87cc4a156d4c4639eec58e78d38a0057a2bbc22f9ba839040254721fc1741",
    "0017_prune": "6c42fed8e9bc8785d374c7e9e7889b69cdfe414a3ff7155a909ffc84fff96a35",
    "0018_stage_failure": "d8de6dd480bfef761f552f00d4fe8343bb21b8e5d4c86082d132cbadf3a0dd23",
    "0019_schemas": "9f864eb002e3ddce407ff3c2512a595f3a221465387d05df81deda2f4336f64d",
    "0020_topics": "a6e4f3b9276aaafdf6e21e7e4d99a3f7029f7b45a715e99df71498940a9820e7",
    "0021_followed_columns": "433f4d674b699e52ab7109a9f6f8bff0d9c431838a91c0a515b301491758688c",
    "0022_unread_fields": "6f50f8437bc7dbe91d6f4c73855a9fbf34396e2363b0c83291e8131f76707e86",
    "0023_notifications": "3e6f7f774f6cadd8ffccae6232d8b539dbec61f529471c4afa9a0d3ae236812b",
}


def test_no_released_migration_was_edited_or_removed() -> None:
    found = {name: sha256(text.encode()).hexdigest() for name, text in migrations().values()}
    assert {name: found.get(name) for name in RELEASED} == RELEASED
