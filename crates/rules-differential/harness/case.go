package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Sample is a time in milliseconds and the bits of a float. In JSON it is an array with the bits as
// hexadecimal text.
type Sample struct {
	AtMs  int64
	Value float64
}

// MarshalJSON writes the array.
func (s Sample) MarshalJSON() ([]byte, error) {
	return []byte(fmt.Sprintf(`[%d,"%s"]`, s.AtMs, bits(s.Value))), nil
}

// UnmarshalJSON reads the array.
func (s *Sample) UnmarshalJSON(text []byte) error {
	var pair [2]json.RawMessage
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if err := json.Unmarshal(pair[0], &s.AtMs); err != nil {
		return err
	}
	var hex string
	if err := json.Unmarshal(pair[1], &hex); err != nil {
		return err
	}
	number, err := strconv.ParseUint(hex, 16, 64)
	s.Value = math.Float64frombits(number)
	return err
}

func bits(value float64) string {
	return strconv.FormatUint(math.Float64bits(value), 16)
}

// Series is a series with its samples.
type Series struct {
	Labels  map[string]string `json:"labels"`
	Samples []Sample          `json:"samples"`
}

// Event is something that happens at a time: "evaluate", "restart" or "reload".
type Event struct {
	Kind    string `json:"kind"`
	AtMs    int64  `json:"at_ms"`
	Version int    `json:"version"`
}

// Case is a group of rules with the data that it sees.
type Case struct {
	Series         []Series          `json:"series"`
	Versions       []string          `json:"versions"`
	Events         []Event           `json:"events"`
	OutageMs       int64             `json:"outage_ms"`
	GraceMs        int64             `json:"grace_ms"`
	ResendMs       int64             `json:"resend_ms"`
	ExternalLabels map[string]string `json:"external_labels"`
	URL            string            `json:"url"`
}

// Alert is the state of an alert; times are nanoseconds since the epoch, 0 if there is none.
type Alert struct {
	Labels          map[string]string `json:"labels"`
	Annotations     map[string]string `json:"annotations"`
	State           string            `json:"state"`
	Value           string            `json:"value"`
	ActiveAt        int64             `json:"active_at"`
	FiredAt         int64             `json:"fired_at"`
	ResolvedAt      int64             `json:"resolved_at"`
	KeepFiringSince int64             `json:"keep_firing_since"`
	LastSentAt      int64             `json:"last_sent_at"`
	ValidUntil      int64             `json:"valid_until"`
}

// Rule is the state of a rule after an evaluation.
type Rule struct {
	Error  string  `json:"error"`
	Alerts []Alert `json:"alerts"`
}

// Sent is an alert as it was sent.
type Sent struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    int64             `json:"starts_at"`
	EndsAt      int64             `json:"ends_at"`
	URL         string            `json:"url"`
}

// Step is what an evaluation did.
type Step struct {
	Rules []Rule `json:"rules"`
	Sent  []Sent `json:"sent"`
}

// Outcome is what a case did.
type Outcome struct {
	Failure string   `json:"failure"`
	Steps   []Step   `json:"steps"`
	Series  []Series `json:"series"`
}
