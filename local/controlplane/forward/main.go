// Forwards TCP connections from listening sockets that it inherits to addresses that it dials.
//
// The listeners belong to the user's network namespace, this process to the cluster's: that is the only way in from
// outside. Usage: forward [-resolver ADDRESS:PORT] FD=HOST:PORT [FD=HOST:PORT ...]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	resolver := flag.String("resolver", "", "name server for the hosts, instead of the machine's")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: forward [-resolver ADDRESS:PORT] FD=HOST:PORT [FD=HOST:PORT ...]")
		os.Exit(2)
	}
	dialer := newDialer(*resolver)
	var all sync.WaitGroup
	for _, argument := range flag.Args() {
		listener, target, err := parse(argument)
		if err != nil {
			fmt.Fprintf(os.Stderr, "forward: %s: %v\n", argument, err)
			os.Exit(2)
		}
		all.Go(func() { serve(listener, target, dialer) })
	}
	all.Wait()
}

// newDialer looks names up anew for every connection: a Service may come later than its forward.
func newDialer(resolver string) *net.Dialer {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	if resolver != "" {
		ask := func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, resolver)
		}
		dialer.Resolver = &net.Resolver{PreferGo: true, Dial: ask}
	}
	return dialer
}

func parse(argument string) (net.Listener, string, error) {
	number, target, found := strings.Cut(argument, "=")
	if !found {
		return nil, "", fmt.Errorf("want FD=HOST:PORT")
	}
	fd, err := strconv.Atoi(number)
	if err != nil {
		return nil, "", err
	}
	listener, err := net.FileListener(os.NewFile(uintptr(fd), "listener"))
	return listener, target, err
}

func serve(listener net.Listener, target string, dialer *net.Dialer) {
	for {
		outside, err := listener.Accept()
		if err != nil {
			fmt.Fprintf(os.Stderr, "forward: accept for %s: %v\n", target, err)
			time.Sleep(100 * time.Millisecond) // out of descriptors: others must close first
			continue
		}
		go connect(outside, target, dialer)
	}
}

func connect(outside net.Conn, target string, dialer *net.Dialer) {
	defer outside.Close()
	inside, err := dialer.Dial("tcp", target)
	if err != nil {
		fmt.Fprintf(os.Stderr, "forward: %v\n", err)
		return
	}
	defer inside.Close()
	var both sync.WaitGroup
	both.Go(func() { pump(inside, outside) })
	both.Go(func() { pump(outside, inside) })
	both.Wait()
}

// pump passes on the end of the stream too: a half-closed connection stays usable in the other direction.
func pump(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(*net.TCPConn); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	to.Close()
	from.Close()
}
