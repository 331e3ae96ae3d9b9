package ui

import (
	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event/told"
	"attune.io/attune/internal/explain"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/savings/report"
	"attune.io/attune/internal/trail"
)

// Beside is what a workload's page shows beside the explanation. What is not known is empty.
type Beside struct {
	// Trails are what the containers had and were to have over time, by container, as far as the leader kept it.
	Trails map[string]trail.Trail
	// Saved is what the workload saves.
	Saved *report.Entry
	// Settings are those of its policy, in the order of their paths.
	Settings []policy.Field
	// Events are those that this leader sent, newest first.
	Events []told.Event
}

// mostSettings are the rows of the settings: more than there are fields.
const mostSettings = 200

// settingsOf has a row for each setting, as explain shows them.
func settingsOf(fields []policy.Field, rec *v1alpha1.AttuneRecommendation) table {
	t := table{Title: "Settings", Header: []string{"field", "value", "set by"}}
	for _, setting := range explain.SettingsOf(fields, rec) {
		t.Rows = append(t.Rows, []string{setting.Field, orDash(setting.Value), setting.SetBy})
	}
	t.More = max(0, len(t.Rows)-mostSettings)
	t.Rows = t.Rows[:len(t.Rows)-t.More]
	return t
}

// eventsOf has a row for each event.
func eventsOf(events []told.Event) table {
	t := table{Title: "Events since the leader began to lead", Header: []string{"time", "type", "reason", "pod", "message"}}
	for _, e := range events {
		t.Rows = append(t.Rows, []string{utc(e.At), e.Type, e.Reason, orDash(e.Pod), e.Message})
	}
	return t
}
