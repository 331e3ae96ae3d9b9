package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/output"
	"attune.io/attune/internal/answers"
)

// newHistory returns the command history. It needs the right to list recommendations, or to get the recommendations of
// the named workloads.
func newHistory(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "history [KIND/NAME...]",
		Short: "Show finished resizes with results and reasons, newest first",
		Long: "Show finished resizes with results and reasons, newest first.\n\n" +
			"The operator keeps the last 20 resizes of each workload. The events of its pods show more.",
		Example:           "  kubectl attune history deployment/web\n  kubectl attune history -A -o json",
		ValidArgsFunction: env.completesWorkloads(0),
		RunE:              func(cmd *cobra.Command, args []string) error { return runHistory(cmd.Context(), env, args) },
	}
}

// runHistory prints the resizes of the selected workloads from the status of their recommendations. It does not read
// pods or events.
func runHistory(ctx context.Context, env *environment, args []string) error {
	r, err := env.recommendations(ctx, args)
	if err != nil {
		return err
	}
	answer := newHistoryReport(r.recs, env.now())
	if len(answer.History) == 0 {
		env.printNote("no resizes have finished yet: kubectl attune status shows pending and blocked workloads")
	}
	return env.print(answer)
}

// historyReport is the answer of history. An entry has the fields of v1alpha1.HistoryEntry, plus the namespace and
// kind of the workload:
//
//	{"history": [{
//	  "namespace": "shop", "kind": "Deployment", "workload": "web",
//	  "pod": "web-7c9-aaaaa", "container": "app", "resource": "cpu",
//	  "from": "500m", "to": "200m", "result": "…", "reason": "…"
//	}]}
type historyReport struct {
	// History has the newest resize first; never nil.
	History []resizeEntry `json:"history"`

	// now is the reference time of ages.
	now time.Time
}

// resizeEntry is one resize of one container, with its workload.
type resizeEntry struct {
	// Namespace of the workload.
	Namespace string `json:"namespace"`
	// Kind of the workload, such as Deployment.
	Kind v1alpha1.WorkloadKind `json:"kind"`
	// HistoryEntry as the operator stored it; its Workload is set by the plugin.
	v1alpha1.HistoryEntry `json:",inline"`
}

// newHistoryReport joins the histories of all recommendations, newest first.
func newHistoryReport(recs []v1alpha1.AttuneRecommendation, now time.Time) historyReport {
	report := historyReport{History: []resizeEntry{}, now: now}
	for _, rec := range recs {
		for _, entry := range rec.Status.History {
			// The stored entry may lack the workload, because the recommendation names it.
			entry.Workload = rec.Spec.Workload.Name
			report.History = append(report.History, resizeEntry{Namespace: rec.Namespace, Kind: rec.Spec.Workload.Kind, HistoryEntry: entry})
		}
	}
	// The sort is stable: entries of one resize have the same time and keep the operator's order.
	slices.SortStableFunc(report.History, func(a, b resizeEntry) int { return b.Timestamp.Compare(a.Timestamp.Time) })
	return report
}

// Human implements document.
func (r historyReport) Human(wide bool) (string, error) {
	if len(r.History) == 0 {
		return "", nil
	}
	t := answers.Table{
		Header:   []string{"AGE", "NAMESPACE", "POD", "CONTAINER", "RESOURCE", "FROM", "TO", "RESULT", "REASON", "METHOD", "WORKLOAD"},
		OnlyWide: []string{"METHOD", "WORKLOAD"},
	}
	if wide {
		t.Header[0] = "TIME"
	}
	for _, e := range r.History {
		// Ages are easier to read; -o wide has the exact time in UTC.
		when := duration.HumanDuration(r.now.Sub(e.Timestamp.Time))
		if wide {
			when = e.Timestamp.UTC().Format(time.RFC3339)
		}
		t.Add(when, e.Namespace, e.Pod, e.Container, e.Resource, e.From, e.To, e.Result, e.Reason, e.Method, string(e.Kind)+"/"+e.Workload)
	}
	return output.Text(t, wide), nil
}
