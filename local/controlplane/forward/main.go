// Forwards TCP connections from listening sockets that it inherits to addresses that it dials.
//
// The listeners belong to the user's network namespace, this process to the cluster's: that is the only way in from
// outside. Usage: forward FD=HOST:PORT [FD=HOST:PORT ...]
package main

import (
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
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: forward FD=HOST:PORT [FD=HOST:PORT ...]")
		os.Exit(2)
	}
	var all sync.WaitGroup
	for _, argument := range os.Args[1:] {
		listener, target, err := parse(argument)
		if err != nil {
			fmt.Fprintf(os.Stderr, "forward: %s: %v\n", argument, err)
			os.Exit(2)
		}
		all.Go(func() { serve(listener, target) })
	}
	all.Wait()
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

func serve(listener net.Listener, target string) {
	for {
		outside, err := listener.Accept()
		if err != nil {
			fmt.Fprintf(os.Stderr, "forward: accept for %s: %v\n", target, err)
			time.Sleep(100 * time.Millisecond) // out of descriptors: others must close first
			continue
		}
		go connect(outside, target)
	}
}

func connect(outside net.Conn, target string) {
	defer outside.Close()
	inside, err := net.DialTimeout("tcp", target, 10*time.Second)
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
