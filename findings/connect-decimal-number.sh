#!/usr/bin/env bash
# Guess: Connect's JsonConverter brings a JSON number under a Decimal schema of scale 2 to scale 2, or refuses it. The SMT Cast from Decimal to string
#   drops the name of the logical type, so that any converter writes a text.
# Version: org.apache.kafka:connect-json and connect-transforms 4.2.0, Java 17. Needs Maven and Maven Central.
# Behaviour: the number keeps its own scale, 1.123 too. Written with decimal.format=NUMERIC it passes; with the default, BASE64, the same value is
#   refused, 1.1 as well as 1.123. Cast leaves the name on the string: JsonConverter refuses the text.
# Seen: 1.1 -> scale 1, NUMERIC 1.1, BASE64 DataException; 1.10 -> scale 2, BASE64 "bg=="; 1.123 -> scale 3, NUMERIC 1.123; Cast -> DataException
set -euo pipefail
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT; cd "$tmp"
cat > pom.xml <<'E'
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>f</groupId><artifactId>f</artifactId><version>1</version>
<packaging>pom</packaging><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>connect-json</artifactId><version>4.2.0</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>connect-transforms</artifactId><version>4.2.0</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
E
mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib >maven.log 2>&1 || { cat maven.log; exit 1; }
cat > Main.java <<'E'
import java.math.BigDecimal;
import java.util.Map;
import org.apache.kafka.connect.data.*;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.transforms.Cast;

public class Main {
    static final String DECIMAL = "{\"schema\": {\"type\": \"bytes\", \"name\": \"" + Decimal.LOGICAL_NAME
        + "\", \"version\": 1, \"parameters\": {\"scale\": \"2\"}}, \"payload\": %s}";

    static JsonConverter converter(String format) {
        JsonConverter made = new JsonConverter();
        made.configure(Map.of("schemas.enable", "true", "decimal.format", format), false);
        return made;
    }

    static String written(JsonConverter by, Schema schema, Object value) {
        try {
            String text = new String(by.fromConnectData("topic", schema, value));
            return text.substring(text.indexOf("\"payload\":") + 10, text.length() - 1);
        } catch (DataException error) {
            return "DataException";
        }
    }

    public static void main(String[] numbers) {
        for (String number : numbers) {
            SchemaAndValue read = converter("NUMERIC").toConnectData("topic", DECIMAL.formatted(number).getBytes());
            System.out.println(number + " " + ((BigDecimal) read.value()).scale() + " "
                + written(converter("NUMERIC"), read.schema(), read.value()) + " " + written(converter("BASE64"), read.schema(), read.value()));
        }
        Cast.Value<SinkRecord> cast = new Cast.Value<>();
        cast.configure(Map.of("spec", "string"));
        SinkRecord record = cast.apply(new SinkRecord("topic", 0, null, null, Decimal.schema(2), new BigDecimal("1.10"), 0));
        System.out.println(record.value() + " " + record.valueSchema().name() + " " + written(converter("BASE64"), record.valueSchema(), record.value()));
    }
}
E
java -cp 'lib/*' Main.java 1.1 1.10 1.123 > seen
diff - seen <<'E' || { echo "connect-decimal-number: it changed" >&2; exit 1; }
1.1 1 1.1 DataException
1.10 2 1.10 "bg=="
1.123 3 1.123 DataException
1.10 org.apache.kafka.connect.data.Decimal DataException
E
echo "ok connect-decimal-number: Connect 4.2.0 keeps 1.123 under a Decimal schema of scale 2, and refuses to write it as bytes"
