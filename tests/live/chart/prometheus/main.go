// Prometheus' own scrape parser, storage, query engine and rule checks, as a filter for tests: a JSON document of what
// was scraped, of expressions and of a rule file comes in, what Prometheus makes of each goes out.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

type question struct {
	Targets []target `json:"targets"`
	// To be evaluated now.
	Expressions []string `json:"expressions"`
	// A rule file in YAML; empty for none.
	Rules string `json:"rules"`
}

type target struct {
	// As service discovery names it.
	Labels map[string]string `json:"labels"`
	// Whether a metric's own label wins over the target's of that name, as in a scrape configuration.
	HonorLabels bool `json:"honorLabels"`
	// Expositions, oldest first, a half minute apart; the last is now.
	Scrapes []string `json:"scrapes"`
}

type selector struct {
	Metric string   `json:"metric"`
	Labels []string `json:"labels"`
}

type result struct {
	Error     string              `json:"error"`
	Type      string              `json:"type"`
	Selectors []selector          `json:"selectors"`
	Series    []map[string]string `json:"series"`
}

type answer struct {
	Expressions []result `json:"expressions"`
	Rules       []string `json:"rules"`
}

const interval = 30 * time.Second

func main() {
	log.SetFlags(0)
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		log.Fatal(err)
	}
	folder, err := os.MkdirTemp("", "prometheus-")
	if err != nil {
		log.Fatal(err)
	}
	found, err := answered(asked, folder)
	os.RemoveAll(folder)
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}

func answered(asked question, folder string) (*answer, error) {
	quiet := slog.New(slog.DiscardHandler)
	now := time.Now().Truncate(time.Second)
	head, err := tsdb.Open(folder, quiet, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return nil, err
	}
	defer head.Close()
	for _, one := range asked.Targets {
		for i, text := range one.Scrapes {
			at := now.Add(-time.Duration(len(one.Scrapes)-1-i) * interval)
			if err := scrape(head, one, text, at); err != nil {
				return nil, err
			}
		}
	}
	reader := parser.NewParser(parser.Options{})
	engine := promql.NewEngine(promql.EngineOpts{Logger: quiet, MaxSamples: 1e6, Timeout: time.Minute, Parser: reader})
	found := &answer{Expressions: []result{}, Rules: []string{}}
	for _, text := range asked.Expressions {
		found.Expressions = append(found.Expressions, evaluated(engine, reader, head, text, now))
	}
	if asked.Rules != "" {
		_, problems := rulefmt.Parse([]byte(asked.Rules), false, model.UTF8Validation, reader, quiet)
		for _, problem := range problems {
			found.Rules = append(found.Rules, problem.Error())
		}
	}
	return found, nil
}

// scrape stores one exposition as a scrape of this target does: what the target is called goes with every series, and
// what a metric called so itself is "exported_".
func scrape(head *tsdb.DB, from target, text string, at time.Time) error {
	lines, err := textparse.New([]byte(text), "text/plain; version=0.0.4", labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return err
	}
	appender := head.Appender(context.Background())
	for {
		kind, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return appender.Commit()
		}
		if err != nil {
			return err
		}
		if kind != textparse.EntrySeries {
			continue
		}
		var own labels.Labels
		_, _, value := lines.Series()
		lines.Labels(&own)
		all := labels.NewBuilder(own)
		for name, called := range from.Labels {
			before := own.Get(name)
			if before != "" && from.HonorLabels {
				continue
			}
			if before != "" {
				all.Set(model.ExportedLabelPrefix+name, before)
			}
			all.Set(name, called)
		}
		if _, err := appender.Append(0, all.Labels(), at.UnixMilli(), value); err != nil {
			return err
		}
	}
}

func evaluated(engine *promql.Engine, reader parser.Parser, head storage.Queryable, text string, now time.Time) result {
	found := result{Selectors: []selector{}, Series: []map[string]string{}}
	expression, err := reader.ParseExpr(text)
	if err != nil {
		found.Error = err.Error()
		return found
	}
	found.Type = string(expression.Type())
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		if one, is := node.(*parser.VectorSelector); is {
			names := []string{}
			for _, matcher := range one.LabelMatchers {
				if matcher.Name != labels.MetricName {
					names = append(names, matcher.Name)
				}
			}
			found.Selectors = append(found.Selectors, selector{one.Name, names})
		}
		return nil
	})
	query, err := engine.NewInstantQuery(context.Background(), head, nil, text, now)
	if err != nil {
		found.Error = err.Error()
		return found
	}
	defer query.Close()
	done := query.Exec(context.Background())
	if done.Err != nil {
		found.Error = done.Err.Error()
		return found
	}
	switch value := done.Value.(type) {
	case promql.Vector:
		for _, sample := range value {
			found.Series = append(found.Series, sample.Metric.Map())
		}
	case promql.Scalar:
		found.Series = append(found.Series, map[string]string{})
	}
	return found
}
