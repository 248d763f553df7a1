#!/usr/bin/env bash
# Guess: Debezium's TimezoneConverter gives a value the offset in force at its own time.
# Version: debezium-core 3.4.0.Final, Kafka Connect 4.1.1, Java 17. Needs Maven and Maven Central.
# Behaviour: it looks up the offset as if the value's UTC time were the local one: for the first hours after a change of clocks it is that of before, and the
#   local time one that no clock has shown. A ZonedTime gets the offset of the day on which the connector runs: read again in another season, it is
#   another text. The instants are right.
# Seen: 2024-03-31T01:30:00Z to Europe/Berlin -> 2024-03-31T02:30:00+01:00, where clocks said 03:30+02:00; 12:00:00Z in Sydney -> 23:00:00+11:00 in December
set -euo pipefail
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT; cd "$tmp"
cat > pom.xml <<'P'
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>f</groupId><artifactId>f</artifactId><version>1</version>
<packaging>pom</packaging><dependencies>
<dependency><groupId>io.debezium</groupId><artifactId>debezium-core</artifactId><version>3.4.0.Final</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>connect-api</artifactId><version>4.1.1</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>connect-transforms</artifactId><version>4.1.1</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
P
mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib >maven.log 2>&1 || { cat maven.log; exit 1; }
cat > Main.java <<'P'
import io.debezium.transforms.TimezoneConverter;
import java.time.Instant;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.OffsetTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

public class Main {
    static String converted(String zone, String type, String value) {
        Schema row = SchemaBuilder.struct().field("at", SchemaBuilder.string().name("io.debezium.time." + type).build()).build();
        Schema source = SchemaBuilder.struct().field("table", Schema.STRING_SCHEMA).build();
        Schema envelope = SchemaBuilder.struct().name("shop.orders.Envelope").field("after", row).field("source", source).build();
        Struct change = new Struct(envelope).put("after", new Struct(row).put("at", value)).put("source", new Struct(source).put("table", "orders"));
        try (TimezoneConverter<SourceRecord> converter = new TimezoneConverter<>()) {
            converter.configure(Map.of("converted.timezone", zone));
            Struct seen = (Struct) converter.apply(new SourceRecord(Map.of(), Map.of(), "shop.orders", 0, envelope, change)).value();
            return seen.getStruct("after").getString("at");
        }
    }

    static void same(Object seen, Object expected) {
        if (!seen.equals(expected)) throw new AssertionError("debezium-timezone-offset: " + seen + ", not " + expected);
    }

    public static void main(String[] arguments) {
        same(converted("Europe/Berlin", "ZonedTimestamp", "2024-07-15T12:00:00Z"), "2024-07-15T14:00:00+02:00");
        String seen = converted("Europe/Berlin", "ZonedTimestamp", "2024-03-31T01:30:00Z");
        same(seen, "2024-03-31T02:30:00+01:00");
        OffsetDateTime clocks = Instant.parse("2024-03-31T01:30:00Z").atZone(ZoneId.of("Europe/Berlin")).toOffsetDateTime();
        same(clocks.toString(), "2024-03-31T03:30+02:00");
        for (String zone : new String[] {"Europe/Berlin", "Australia/Sydney"}) {
            ZoneOffset now = ZoneId.of(zone).getRules().getOffset(Instant.now());
            OffsetTime noon = OffsetTime.of(LocalTime.NOON, ZoneOffset.UTC).withOffsetSameInstant(now);
            same(OffsetTime.parse(converted(zone, "ZonedTime", "12:00:00Z")), noon);
        }
    }
}
P
java -cp "lib/*" Main.java
echo "ok debezium-timezone-offset: Debezium 3.4.0 says 02:30+01:00 in Berlin, where clocks said 03:30+02:00"
