package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// faults is the document that says what goes wrong, and how often. Rates are between 0 and 1.
type faults struct {
	LatencyMs    int     `json:"latencyMs"`  // added to every request
	JitterMs     int     `json:"jitterMs"`   // up to this much more, uniformly
	ErrorRate    float64 `json:"errorRate"`  // refused before the API server sees them
	ErrorCodes   []int   `json:"errorCodes"` // one of these, uniformly; 409 only for requests that change something
	LostRate     float64 `json:"lostRate"`   // carried out, but the client loses the connection before the answer
	CutsPerMin   float64 `json:"cutsPerMin"` // how often a watch breaks, on average
	Seed         uint64  `json:"seed"`
	OnlyUserLike string  `json:"onlyUserLike"` // a part of the User-Agent; others are left alone
}

var explanations = map[int]struct{ reason, message string }{
	http.StatusConflict:            {"Conflict", "injected fault: the object has been modified; please apply your changes to the latest version and try again"},
	http.StatusTooManyRequests:     {"TooManyRequests", "injected fault: too many requests, please try again later"},
	http.StatusInternalServerError: {"InternalError", "injected fault: an error on the server has prevented the request from succeeding"},
	http.StatusServiceUnavailable:  {"ServiceUnavailable", "injected fault: the server is currently unable to handle the request"},
	http.StatusGatewayTimeout:      {"Timeout", "injected fault: the server was unable to return a response in time"},
}

type faultyProxy struct {
	next http.Handler

	mutex  sync.Mutex
	faults faults
	random *rand.Rand
}

func (p *faultyProxy) load(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var read faults
	if err := json.Unmarshal(content, &read); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, code := range read.ErrorCodes {
		if _, known := explanations[code]; !known {
			return fmt.Errorf("%s: error code %d is none of 409, 429, 500, 503, 504", path, code)
		}
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.faults, p.random = read, rand.New(rand.NewPCG(read.Seed, read.Seed))
	log.Printf("faults: %s", content)
	return nil
}

// fate is what happens to one request; drawn at once, so that a seed gives the same fates in the same order.
type fate struct {
	delay    time.Duration
	code     int
	lost     bool
	lifetime time.Duration
}

func (p *faultyProxy) draw(request *http.Request) fate {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	f, r := p.faults, p.random
	drawn := fate{delay: time.Duration(f.LatencyMs) * time.Millisecond}
	if f.JitterMs > 0 {
		drawn.delay += time.Duration(r.Int64N(int64(f.JitterMs))) * time.Millisecond
	}
	codes := f.ErrorCodes
	if request.Method == http.MethodGet {
		codes = without(codes, http.StatusConflict)
	}
	if r.Float64() < f.ErrorRate && len(codes) > 0 {
		drawn.code = codes[r.IntN(len(codes))]
	}
	drawn.lost = r.Float64() < f.LostRate
	if f.CutsPerMin > 0 {
		drawn.lifetime = time.Duration(r.ExpFloat64() / f.CutsPerMin * float64(time.Minute))
	}
	return drawn
}

func (p *faultyProxy) concerned(request *http.Request) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return strings.Contains(request.UserAgent(), p.faults.OnlyUserLike)
}

func without(codes []int, unwanted int) []int {
	var kept []int
	for _, code := range codes {
		if code != unwanted {
			kept = append(kept, code)
		}
	}
	return kept
}

func (p *faultyProxy) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	drawn := p.draw(request)
	if !p.concerned(request) {
		p.next.ServeHTTP(w, request)
		return
	}
	time.Sleep(drawn.delay)
	watch, _ := strconv.ParseBool(request.URL.Query().Get("watch"))
	switch {
	case drawn.code != 0:
		refuse(w, drawn.code)
	case watch && drawn.lifetime > 0:
		p.serveUntil(w, request, drawn.lifetime)
	case drawn.lost && !watch:
		p.next.ServeHTTP(discard{http.Header{}}, request)
		panic(http.ErrAbortHandler) // the connection, or in HTTP/2 the stream, ends without an answer
	default:
		p.next.ServeHTTP(w, request)
	}
}

// serveUntil cuts a watch in the middle: the client sees the stream break, not an orderly end.
func (p *faultyProxy) serveUntil(w http.ResponseWriter, request *http.Request, lifetime time.Duration) {
	limited, cancel := context.WithTimeout(request.Context(), lifetime)
	defer cancel()
	p.next.ServeHTTP(w, request.WithContext(limited))
	if limited.Err() != nil {
		panic(http.ErrAbortHandler)
	}
}

func refuse(w http.ResponseWriter, code int) {
	said := explanations[code]
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"reason": said.reason, "message": said.message, "code": code,
	})
}

// discard takes an answer that the client never gets.
type discard struct{ header http.Header }

func (d discard) Header() http.Header               { return d.header }
func (d discard) Write(content []byte) (int, error) { return len(content), nil }
func (d discard) WriteHeader(int)                   {}
