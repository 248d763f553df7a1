#!/usr/bin/env bash
# Guess: goavro and hamba/avro refuse a decimal of more digits than the scale, and floor a date before 1970.
# Version: goavro v2.15.0, hamba/avro v2.31.0, Go 1.24 or later
# Behaviour: both floor the decimal, so that its sign decides, and goavro takes more digits than the precision, although it refuses an int that would lose
#   some. Both cut a date toward 1970: with a time of day it is the next day.
# Seen: 1.2399 -> 1.23, -1.2399 -> -1.24 under a scale of 2; 1969-12-31 12:00 as a date -> 1970-01-01
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'chmod -R u+w "$tmp"; rm -rf "$tmp"' EXIT; export TMPDIR="$tmp"
export GOPATH="$tmp/go" GOCACHE="$tmp/cache" GOFLAGS=-mod=mod
mkdir "$tmp/main"; cd "$tmp/main"
go mod init values 2>"$tmp/log"
cat > main.go <<'P'
package main

import (
	"fmt"
	"math/big"
	"time"

	hamba "github.com/hamba/avro/v2"
	"github.com/linkedin/goavro/v2"
)

const decimal = `{"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}`
const date = `{"type": "int", "logicalType": "date"}`

func or(err error) {
	if err != nil {
		panic(err)
	}
}

func both(schema string, value any) string {
	codec, err := goavro.NewCodec(schema)
	or(err)
	bytes, err := codec.BinaryFromNative(nil, value)
	or(err)
	first, _, err := codec.NativeFromBinary(bytes)
	or(err)
	parsed := hamba.MustParse(schema)
	bytes, err = hamba.Marshal(parsed, value)
	or(err)
	var second any
	or(hamba.Unmarshal(parsed, bytes, &second))
	return shown(first) + " " + shown(second)
}

func shown(value any) string {
	if moment, ok := value.(time.Time); ok {
		return moment.Format(time.DateOnly)
	}
	return value.(*big.Rat).FloatString(4)
}

func main() {
	fmt.Println(both(decimal, big.NewRat(12399, 10000)))
	fmt.Println(both(decimal, big.NewRat(-12399, 10000)))
	fmt.Println(both(date, time.Date(1969, 12, 31, 12, 0, 0, 0, time.UTC)))
	codec, err := goavro.NewCodec(decimal)
	or(err)
	bytes, err := codec.BinaryFromNative(nil, big.NewRat(123456789, 1))
	or(err)
	value, _, err := codec.NativeFromBinary(bytes)
	or(err)
	fmt.Println(shown(value))
}
P
go get github.com/linkedin/goavro/v2@v2.15.0 github.com/hamba/avro/v2@v2.31.0 2>"$tmp/log" || { cat "$tmp/log"; exit 1; }
seen=$(go run . 2>"$tmp/log") || { cat "$tmp/log"; exit 1; }
expected="1.2300 1.2300
-1.2400 -1.2400
1970-01-01 1970-01-01
123456789.0000"
[ "$seen" = "$expected" ] || { echo "avro-go-values: $seen"; exit 1; }
echo "ok avro-go-values: goavro 2.15.0 and hamba/avro 2.31.0 write 1.2399 as 1.23, -1.2399 as -1.24, and noon of 1969-12-31 as 1970-01-01"
