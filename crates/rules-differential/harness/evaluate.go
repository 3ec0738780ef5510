package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/notifier"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// blockDuration is longer than any case, so that all samples stay in the head.
const blockDuration = 400 * 24 * time.Hour

var language = parser.NewParser(parser.Options{EnableExperimentalFunctions: true})

var engine = promql.NewEngine(promql.EngineOpts{
	MaxSamples:               50_000_000,
	Timeout:                  time.Minute,
	LookbackDelta:            5 * time.Minute,
	NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
	EnableAtModifier:         true,
	EnableNegativeOffset:     true,
	EnableDelayedNameRemoval: true,
	Parser:                   language,
})

var metrics = rules.NewGroupMetrics(nil)

// outbox keeps the alerts that are sent.
type outbox struct{ sent []Sent }

// Send implements rules.Sender.
func (o *outbox) Send(alerts ...*notifier.Alert) {
	for _, alert := range alerts {
		o.sent = append(o.sent, Sent{
			Labels:      alert.Labels.Map(),
			Annotations: alert.Annotations.Map(),
			StartsAt:    nanoseconds(alert.StartsAt),
			EndsAt:      nanoseconds(alert.EndsAt),
			URL:         alert.GeneratorURL,
		})
	}
}

func nanoseconds(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixNano()
}

// process is a server: it ends at a restart.
type process struct {
	one         *Case
	options     *rules.ManagerOptions
	group       *rules.Group
	evaluations int
}

// evaluate runs a case.
func evaluate(one *Case) (outcome *Outcome, err error) {
	folder, err := os.MkdirTemp("", "rulesharness")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	options := tsdb.DefaultOptions()
	options.MinBlockDuration = blockDuration.Milliseconds()
	options.MaxBlockDuration = blockDuration.Milliseconds()
	options.RetentionDuration = 0
	options.WALSegmentSize = -1
	db, err := tsdb.Open(folder, nil, nil, options, tsdb.NewDBStats())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.DisableCompactions()
	given, err := load(db, one.Series)
	if err != nil {
		return nil, err
	}
	outcome = &Outcome{Steps: []Step{}, Series: []Series{}}
	if err := runEvents(one, db, outcome); err != nil {
		return nil, err
	}
	outcome.Series, err = written(db, given)
	return outcome, err
}

// load stores the given series, and returns their labels.
func load(db *tsdb.DB, series []Series) (map[string]bool, error) {
	given := make(map[string]bool, len(series))
	for _, one := range series {
		app := db.AppenderV2(context.Background())
		set := labels.FromMap(one.Labels)
		given[set.String()] = true
		for _, sample := range one.Samples {
			_, err := app.Append(0, set, 0, sample.AtMs, sample.Value, nil, nil, storage.AOptions{})
			if err != nil {
				return nil, fmt.Errorf("storing %s: %w", set, err)
			}
		}
		if err := app.Commit(); err != nil {
			return nil, err
		}
	}
	return given, nil
}

func runEvents(one *Case, db *tsdb.DB, outcome *Outcome) error {
	var server *process
	box := &outbox{}
	for _, event := range one.Events {
		switch event.Kind {
		case "restart":
			server = start(one, db, box)
			group, err := server.newGroup(event.Version, false)
			if err != nil {
				return err
			}
			server.group = group
		case "reload":
			group, err := server.newGroup(event.Version, true)
			if err != nil {
				return err
			}
			group.CopyState(server.group)
			server.group = group
		case "evaluate":
			outcome.Steps = append(outcome.Steps, server.step(time.UnixMilli(event.AtMs).UTC(), box))
		default:
			return fmt.Errorf("unknown event %q", event.Kind)
		}
	}
	return nil
}

func start(one *Case, db *tsdb.DB, box *outbox) *process {
	address, err := url.Parse(one.URL)
	if err != nil {
		address = &url.URL{}
	}
	return &process{one: one, options: &rules.ManagerOptions{
		NameValidationScheme: model.UTF8Validation,
		ExternalURL:          address,
		QueryFunc:            rules.EngineQueryFunc(engine, db),
		NotifyFunc:           rules.SendAlerts(box, one.URL),
		Context:              context.Background(),
		AppendableV2:         db,
		Queryable:            db,
		Logger:               promslog.NewNopLogger(),
		OutageTolerance:      time.Duration(one.OutageMs) * time.Millisecond,
		ForGracePeriod:       time.Duration(one.GraceMs) * time.Millisecond,
		ResendDelay:          time.Duration(one.ResendMs) * time.Millisecond,
		Metrics:              metrics,
		Parser:               language,
	}}
}

// newGroup reads a version of the group.
func (p *process) newGroup(version int, restored bool) (*rules.Group, error) {
	text := []byte(p.one.Versions[version])
	file, failures := rulefmt.Parse(text, false, model.UTF8Validation, language, promslog.NewNopLogger())
	if len(failures) > 0 {
		return nil, errors.Join(failures...)
	}
	if len(file.Groups) != 1 {
		return nil, fmt.Errorf("%d groups instead of one", len(file.Groups))
	}
	group := file.Groups[0]
	external := labels.FromMap(p.one.ExternalLabels)
	var list []rules.Rule
	for _, rule := range group.Rules {
		expression, err := language.ParseExpr(rule.Expr)
		if err != nil {
			return nil, err
		}
		set := rules.FromMaps(group.Labels, rule.Labels)
		if rule.Alert == "" {
			list = append(list, rules.NewRecordingRule(rule.Record, expression, set))
			continue
		}
		list = append(list, rules.NewAlertingRule(rule.Alert, expression, time.Duration(rule.For),
			time.Duration(rule.KeepFiringFor), set, labels.FromMap(rule.Annotations), external, p.one.URL,
			restored, promslog.NewNopLogger()))
	}
	return rules.NewGroup(rules.GroupOptions{
		Name: group.Name, File: "case.yml", Interval: time.Duration(group.Interval), Limit: group.Limit,
		Rules: list, ShouldRestore: !restored, Opts: p.options, QueryOffset: (*time.Duration)(group.QueryOffset),
	}), nil
}

// step evaluates the group once. Like the manager, it restores alerts after the second evaluation.
func (p *process) step(at time.Time, box *outbox) Step {
	box.sent = []Sent{}
	p.group.Eval(context.Background(), at)
	p.evaluations++
	if p.evaluations == 2 {
		p.group.RestoreForState(at)
	}
	step := Step{Rules: []Rule{}, Sent: box.sent}
	for _, rule := range p.group.Rules() {
		state := Rule{Alerts: []Alert{}}
		if err := rule.LastError(); err != nil {
			state.Error = err.Error()
		}
		if alerting, ok := rule.(*rules.AlertingRule); ok {
			alerting.ForEachActiveAlert(func(alert *rules.Alert) {
				state.Alerts = append(state.Alerts, stateOf(alert))
			})
		}
		step.Rules = append(step.Rules, state)
	}
	return step
}

func stateOf(alert *rules.Alert) Alert {
	return Alert{
		Labels:          alert.Labels.Map(),
		Annotations:     alert.Annotations.Map(),
		State:           alert.State.String(),
		Value:           bits(alert.Value),
		ActiveAt:        nanoseconds(alert.ActiveAt),
		FiredAt:         nanoseconds(alert.FiredAt),
		ResolvedAt:      nanoseconds(alert.ResolvedAt),
		KeepFiringSince: nanoseconds(alert.KeepFiringSince),
		LastSentAt:      nanoseconds(alert.LastSentAt),
		ValidUntil:      nanoseconds(alert.ValidUntil),
	}
}

// written returns all series that were not given.
func written(db *tsdb.DB, given map[string]bool) ([]Series, error) {
	querier, err := db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	defer querier.Close()
	every := labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, ".+")
	found := querier.Select(context.Background(), true, nil, every)
	all := []Series{}
	for found.Next() {
		set := found.At().Labels()
		if given[set.String()] {
			continue
		}
		one := Series{Labels: set.Map(), Samples: []Sample{}}
		samples := found.At().Iterator(nil)
		for kind := samples.Next(); kind != chunkenc.ValNone; kind = samples.Next() {
			if kind != chunkenc.ValFloat {
				return nil, fmt.Errorf("%s has a histogram", set)
			}
			at, value := samples.At()
			one.Samples = append(one.Samples, Sample{AtMs: at, Value: value})
		}
		if err := samples.Err(); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, found.Err()
}
