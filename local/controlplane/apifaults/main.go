// An API server that behaves badly, for tests of clients: a proxy in front of the real one that adds latency, refuses
// requests, loses answers and cuts watches, by rate and seed. See faults.go for what it does to a request.
//
// It ends TLS with the API server's own certificate and passes on who the client is by the API server's front-proxy
// headers; bearer tokens pass as they are. The faults are read from a file at start and again on SIGHUP.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	pki := flag.String("pki", "", "folder with the cluster's certificates")
	listen := flag.String("listen", ":6444", "address to serve")
	target := flag.String("target", "", "HOST:PORT of the API server")
	path := flag.String("faults", "", "file with the faults, JSON")
	flag.Parse()
	proxy, server, err := build(*pki, *listen, *target)
	if err == nil {
		err = proxy.load(*path)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "apifaults: %v\n", err)
		os.Exit(1)
	}
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	go func() {
		for range again {
			if err := proxy.load(*path); err != nil {
				log.Printf("keeping the faults as they were: %v", err)
			}
		}
	}()
	log.Fatal(server.ListenAndServeTLS(filepath.Join(*pki, "apiserver.crt"), filepath.Join(*pki, "apiserver.key")))
}

func build(pki, listen, target string) (*faultyProxy, *http.Server, error) {
	clients, err := certificates(filepath.Join(pki, "ca.crt"))
	if err != nil {
		return nil, nil, err
	}
	front, err := tls.LoadX509KeyPair(filepath.Join(pki, "front-proxy-client.crt"), filepath.Join(pki, "front-proxy-client.key"))
	if err != nil {
		return nil, nil, err
	}
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: clients, Certificates: []tls.Certificate{front}},
		ForceAttemptHTTP2: true,
	}
	reverse := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // a watch event is passed on at once
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: target})
			identify(r.Out)
		},
	}
	proxy := &faultyProxy{next: reverse}
	server := &http.Server{
		Addr:      listen,
		Handler:   proxy,
		TLSConfig: &tls.Config{ClientCAs: clients, ClientAuth: tls.VerifyClientCertIfGiven},
	}
	return proxy, server, nil
}

func certificates(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificate in it", path)
	}
	return pool, nil
}

// identify replaces a verified client certificate by the headers that the API server trusts from its front proxy.
func identify(out *http.Request) {
	for name := range out.Header {
		if strings.HasPrefix(strings.ToLower(name), "x-remote-") {
			out.Header.Del(name)
		}
	}
	if out.TLS == nil || len(out.TLS.VerifiedChains) == 0 {
		return
	}
	subject := out.TLS.VerifiedChains[0][0].Subject
	out.Header.Set("X-Remote-User", subject.CommonName)
	for _, group := range subject.Organization {
		out.Header.Add("X-Remote-Group", group)
	}
}
