#!/usr/bin/env bash
# Guess: Kafka Connect's SimpleHeaderConverter (the default of workers) reads 00123 as the number 123, 1e3 as 1000.0 and 1.10 as 1.1, and
#   leaves what is no number a string.
# Version: org.apache.kafka:connect-api 4.2.0, Java 17. Needs Maven and Maven Central.
# Behaviour: a text that begins with a number and a colon becomes that number, and the rest is lost: 10:30 is the number 10. A fraction becomes a
#   float32 whatever its digits, so 16777217.5 goes out again as 1.6777218E7. Digits of other scripts are numbers, too. 1e3 is the integer 1000.
# Seen: 10:30 -> 10; 7:orders -> 7; 16777217.5 -> 1.6777218E7; 1e-400 -> 0.0; 00123 -> 123; 1e3 -> 1000; orders:7 stays; 10:30:00.000Z stays
set -euo pipefail
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT; cd "$tmp"
cat > pom.xml <<'E'
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>f</groupId><artifactId>f</artifactId><version>1</version>
<packaging>pom</packaging><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>connect-api</artifactId><version>4.2.0</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
E
mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib >maven.log 2>&1 || { cat maven.log; exit 1; }
cat > Main.java <<'E'
import java.nio.charset.StandardCharsets;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;

public class Main {
    public static void main(String[] texts) {
        SimpleHeaderConverter converter = new SimpleHeaderConverter();
        for (String text : texts) {
            var read = converter.toConnectHeader("topic", "header", text.getBytes(StandardCharsets.UTF_8));
            byte[] written = converter.fromConnectHeader("topic", "header", read.schema(), read.value());
            System.out.println(text + " " + read.schema().type() + " " + new String(written, StandardCharsets.UTF_8));
        }
    }
}
E
java -cp 'lib/*' Main.java 10:30 7:orders 16777217.5 1e-400 00123 1e3 orders:7 10:30:00.000Z > seen
diff - seen <<'E' || { echo "connect-header-text: it changed" >&2; exit 1; }
10:30 INT8 10
7:orders INT8 7
16777217.5 FLOAT32 1.6777218E7
1e-400 FLOAT32 0.0
00123 INT8 123
1e3 INT16 1000
orders:7 STRING orders:7
10:30:00.000Z INT32 10:30:00.000Z
E
echo "ok connect-header-text: Connect 4.2.0 passes the header 10:30 on as 10"
