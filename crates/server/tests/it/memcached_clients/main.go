// cacheclients uses the cache server through existing client libraries: gomemcache, as Loki, Mimir and Tempo
// do, and mc over the binary protocol, with and without SASL.
//
//	cacheclients gomemcache ADDRESS
//	cacheclients binary ADDRESS [USER PASSWORD]
//
// It exits with 1 and a message at the first wrong response. At the end it prints how many responses it
// checked, and leaves one item, "left-by-NAME", for its caller.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/grafana/gomemcache/memcache"
	"github.com/memcachier/mc/v3"
)

var looked int

// expect ends the program unless the response is right.
func expect(right bool, what string, got ...any) {
	looked++
	if !right {
		fmt.Fprintln(os.Stderr, append([]any{what + ":"}, got...)...)
		os.Exit(1)
	}
}

// value is different for each key, in each of its parts.
func value(key int, length int) []byte {
	var text bytes.Buffer
	for n := 0; text.Len() < length; n++ {
		fmt.Fprintf(&text, "%d:%d,", key, n)
	}
	return text.Bytes()[:length]
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "cacheclients gomemcache|binary ADDRESS [USER PASSWORD]")
		os.Exit(2)
	}
	user, password := "", ""
	if len(os.Args) == 5 {
		user, password = os.Args[3], os.Args[4]
	}
	switch os.Args[1] {
	case "gomemcache":
		useGomemcache(os.Args[2])
	case "binary":
		useBinary(os.Args[2], user, password)
	default:
		fmt.Fprintln(os.Stderr, "unknown client", os.Args[1])
		os.Exit(2)
	}
	fmt.Println(looked, "answers")
}

func useGomemcache(address string) {
	client := memcache.New(address)
	client.Timeout = 20 * time.Second
	defer client.Close()
	expect(client.Ping() == nil, "ping")
	batches(client)
	conditions(client)
	numbers(client)

	expect(client.Set(&memcache.Item{Key: "brief", Value: []byte("x"), Expiration: 1000}) == nil, "set with an expiry")
	expect(client.Touch("brief", 2000) == nil, "touch")
	expect(errors.Is(client.Touch("nowhere", 10), memcache.ErrCacheMiss), "touch of a missing key")
	expect(client.Delete("brief") == nil, "delete")
	expect(errors.Is(client.Delete("brief"), memcache.ErrCacheMiss), "delete of a missing key")
	large := &memcache.Item{Key: "large", Value: value(7, 900_000)}
	expect(client.Set(large) == nil, "set of 900 kB")
	got, err := client.Get("large")
	expect(err == nil && bytes.Equal(got.Value, large.Value), "get of 900 kB", err)
	err = client.Set(&memcache.Item{Key: "too-large", Value: make([]byte, 2<<20)})
	expect(err != nil && strings.Contains(err.Error(), "too large"), "set of 2 MiB", err)

	expect(client.FlushAll() == nil, "flush_all")
	_, err = client.Get("large")
	expect(errors.Is(err, memcache.ErrCacheMiss), "get after flush_all", err)
	expect(client.Set(&memcache.Item{Key: "left-by-gomemcache", Value: []byte("here"), Flags: 3}) == nil, "last set")
}

// batches reads many keys with one "gets", as Loki does; most of them are on flash by then.
func batches(client *memcache.Client) {
	const count, length = 400, 16 << 10
	for key := 0; key < count; key++ {
		item := &memcache.Item{Key: fmt.Sprintf("chunk-%d", key), Value: value(key, length), Flags: uint32(key)}
		err := client.Set(item)
		expect(err == nil, "set of "+item.Key, err)
	}
	for from := 0; from < count; from += 100 {
		keys := []string{"absent"}
		for key := from; key < from+100; key++ {
			keys = append(keys, fmt.Sprintf("chunk-%d", key))
		}
		found, err := client.GetMulti(context.Background(), keys)
		expect(err == nil && len(found) == 100, "gets of 101 keys", err, len(found))
		for key := from; key < from+100; key++ {
			item := found[fmt.Sprintf("chunk-%d", key)]
			expect(item != nil, "missing", key)
			expect(item.Flags == uint32(key) && bytes.Equal(item.Value, value(key, length)), "wrong value", key)
		}
	}
}

func conditions(client *memcache.Client) {
	first := &memcache.Item{Key: "one", Value: []byte("1")}
	expect(errors.Is(client.Replace(first), memcache.ErrNotStored), "replace of a missing key")
	expect(client.Add(first) == nil, "add")
	expect(errors.Is(client.Add(first), memcache.ErrNotStored), "add of an existing key")
	expect(client.Replace(&memcache.Item{Key: "one", Value: []byte("2")}) == nil, "replace")
	mine, err := client.Get("one")
	expect(err == nil && string(mine.Value) == "2", "get", err)
	theirs, err := client.Get("one")
	expect(err == nil, "get", err)
	theirs.Value = []byte("theirs")
	expect(client.CompareAndSwap(theirs) == nil, "cas")
	mine.Value = []byte("mine")
	expect(errors.Is(client.CompareAndSwap(mine), memcache.ErrCASConflict), "cas of an old version")
	got, err := client.Get("one")
	expect(err == nil && string(got.Value) == "theirs", "get after cas", err)
}

func numbers(client *memcache.Client) {
	expect(client.Set(&memcache.Item{Key: "number", Value: []byte("40")}) == nil, "set of a number")
	sum, err := client.Increment("number", 2)
	expect(err == nil && sum == 42, "incr", sum, err)
	sum, err = client.Decrement("number", 50)
	expect(err == nil && sum == 0, "decr stops at 0", sum, err)
	_, err = client.Increment("nowhere", 1)
	expect(errors.Is(err, memcache.ErrCacheMiss), "incr of a missing key", err)
}

func useBinary(address, user, password string) {
	config := mc.DefaultConfig()
	config.ConnectionTimeout, config.DownRetryDelay = 20*time.Second, 0
	client := mc.NewMCwithConfig(address, user, password, config)
	versions, err := client.Version()
	expect(err == nil && len(versions) == 1, "version", err)

	text := string(value(1, 20_000))
	cas, err := client.Set("key", text, 77, 0, 0)
	expect(err == nil && cas != 0, "set", err)
	got, flags, seen, err := client.Get("key")
	expect(err == nil && got == text && flags == 77 && seen == cas, "get", flags, err)
	_, err = client.Set("key", "x", 0, 0, cas+1)
	expect(errors.Is(err, mc.ErrKeyExists), "set of another version", err)
	_, err = client.Add("key", "x", 0, 0)
	expect(errors.Is(err, mc.ErrKeyExists), "add of an existing key", err)
	_, err = client.Replace("nowhere", "x", 0, 0, 0)
	expect(errors.Is(err, mc.ErrNotFound), "replace of a missing key", err)
	_, err = client.Append("key", "!", 0)
	expect(err == nil, "append", err)
	_, err = client.Prepend("key", "?", 0)
	expect(err == nil, "prepend", err)
	got, _, _, err = client.GAT("key", 1000)
	expect(err == nil && got == "?"+text+"!", "get and touch", err)
	_, err = client.Touch("key", 2000)
	expect(err == nil, "touch", err)

	number, _, err := client.Incr("number", 5, 40, 0, 0)
	expect(err == nil && number == 40, "incr with a first value", number, err)
	number, _, err = client.Incr("number", 2, 0, 0, 0)
	expect(err == nil && number == 42, "incr", number, err)
	number, _, err = client.Decr("number", 100, 0, 0, 0)
	expect(err == nil && number == 0, "decr stops at 0", number, err)
	expect(client.Del("number") == nil, "delete")
	expect(errors.Is(client.Del("number"), mc.ErrNotFound), "delete of a missing key")
	expect(client.NoOp() == nil, "noop")

	stats, err := client.Stats()
	expect(err == nil && len(stats) == 1, "stats", err)
	for _, numbers := range stats {
		expect(numbers["cmd_set"] != "" && numbers["cmd_set"] != "0", "cmd_set", numbers["cmd_set"])
	}
	expect(client.Flush(0) == nil, "flush")
	_, _, _, err = client.Get("key")
	expect(errors.Is(err, mc.ErrNotFound), "get after flush", err)
	_, err = client.Set("left-by-binary", "here", 3, 0, 0)
	expect(err == nil, "last set", err)
	client.Quit()
}
