// Creates copies of one object as fast as the API server takes them, so that the rate is the server's and not the client's.
//
// The object comes as JSON on stdin; copy i is called <prefix><i>. Prints one line of JSON: seconds, the client's own CPU
// seconds, how many were refused, and the first refusal.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	url      = flag.String("url", "", "collection to create in")
	ca       = flag.String("ca", "", "certificate of the server's authority")
	cert     = flag.String("cert", "", "client certificate")
	key      = flag.String("key", "", "key of the client certificate")
	token    = flag.String("token", "", "bearer token")
	prefix   = flag.String("prefix", "", "beginning of the names")
	count    = flag.Int("count", 1, "number of objects")
	inFlight = flag.Int("in-flight", 50, "calls at the same time")
)

func main() {
	flag.Parse()
	var object map[string]any
	must(json.NewDecoder(os.Stdin).Decode(&object))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: tlsConfig(), ForceAttemptHTTP2: true}}

	var next, refused atomic.Int64
	var first atomic.Pointer[string]
	var workers sync.WaitGroup
	started := time.Now()
	for range *inFlight {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(*count); i = next.Add(1) - 1 {
				if refusal := create(client, object, i); refusal != "" {
					refused.Add(1)
					first.CompareAndSwap(nil, &refusal)
				}
			}
		})
	}
	workers.Wait()
	result := map[string]any{"seconds": time.Since(started).Seconds(), "cpu_seconds": cpuSeconds(), "refused": refused.Load()}
	if text := first.Load(); text != nil {
		result["first"] = *text
	}
	must(json.NewEncoder(os.Stdout).Encode(result))
}

// create makes copy i; it returns why it was refused, or nothing.
func create(client *http.Client, object map[string]any, i int64) string {
	metadata := map[string]any{}
	for name, value := range object["metadata"].(map[string]any) {
		metadata[name] = value
	}
	metadata["name"] = fmt.Sprintf("%s%d", *prefix, i)
	one := map[string]any{"metadata": metadata}
	for name, value := range object {
		if name != "metadata" {
			one[name] = value
		}
	}
	body, err := json.Marshal(one)
	must(err)
	request, err := http.NewRequest(http.MethodPost, *url, bytes.NewReader(body))
	must(err)
	request.Header.Set("Content-Type", "application/json")
	if *token != "" {
		request.Header.Set("Authorization", "Bearer "+*token)
	}
	response, err := client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	answer, _ := io.ReadAll(response.Body)
	if response.StatusCode >= 300 {
		return fmt.Sprintf("%d %s", response.StatusCode, answer)
	}
	return ""
}

func tlsConfig() *tls.Config {
	config := &tls.Config{}
	if *ca != "" {
		text, err := os.ReadFile(*ca)
		must(err)
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(text)
	}
	if *cert != "" {
		pair, err := tls.LoadX509KeyPair(*cert, *key)
		must(err)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

func cpuSeconds() float64 {
	var used syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
