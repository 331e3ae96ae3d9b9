package answers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Human formats the explanation as text, with one line for each step of the computation. wide adds the holds of every
// pod. The text is for display and may change.
func (e Explanation) Human(wide bool) (string, error) {
	out := &explanationWriter{}
	if e.Workload != nil {
		out.workload(e.Workload)
	}
	for i, container := range e.Containers {
		if i > 0 || e.Workload != nil {
			out.line("")
		}
		out.container(container, wide)
	}
	for _, c := range e.NotSized {
		out.line("\nContainer %s: %s; not sized. %s", c.Name, c.Reason, c.Has())
	}
	out.settings(e.Settings, wide)
	return out.String(), nil
}

// explanationWriter collects the text of an explanation.
type explanationWriter struct{ strings.Builder }

// line writes one line. Arguments may come from objects of the cluster: InLine keeps them on the line.
func (w *explanationWriter) line(format string, args ...any) {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = InLine(text)
		}
	}
	fmt.Fprintf(w, format+"\n", args...)
}

// passive has the modes that do not resize running pods, with their meaning.
var passive = map[string]string{
	"Observe":   "attune only observes and applies nothing",
	"Recommend": "attune only recommends and applies nothing",
	"Initial":   "attune sets the resources of new pods only and does not resize running pods",
}

// workload writes the heading and the meaning of a passive mode.
func (w *explanationWriter) workload(of *ExplainedWorkload) {
	w.line("%s", of.Sentence())
	if shares := of.Shares(); shares != "" {
		w.line("%s", shares)
	}
	if means := of.ModeMeans(); means != "" {
		w.line("%s", means)
	}
	for _, b := range of.Blocked {
		w.line("Blocked, %s: %s", b.Reason, b.Message)
	}
	for _, sentence := range append([]string{of.NextResize, of.AdmissionWithdrawn, of.NewPods}, of.InitContainers...) {
		if sentence != "" {
			w.line("%s", sentence)
		}
	}
}

// settings writes the settings that an object sets, in columns. wide adds the built-in ones.
func (w *explanationWriter) settings(settings []Setting, wide bool) {
	shown := slices.DeleteFunc(slices.Clone(settings), func(s Setting) bool { return s.builtIn && !wide })
	if len(shown) == 0 {
		return
	}
	w.line("\nSettings")
	w.columns("  ", podview.Map(shown, func(s Setting) [3]string { return [3]string{s.Field, cmp.Or(s.Value, "-"), s.SetBy} }))
}

// columns writes aligned rows.
func (w *explanationWriter) columns(indent string, rows [][3]string) {
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintf(out, "%s%s\t%s\t%s\n", indent, InLine(row[0]), InLine(row[1]), InLine(row[2]))
	}
	_ = out.Flush() // writes to a strings.Builder do not fail
}

// Sentence names the workload and its policy and mode, or says why the workload is not sized.
func (of *ExplainedWorkload) Sentence() string {
	if of.Unreadable != "" {
		return fmt.Sprintf("%s/%s in namespace %s, selected by policy %s, is not managed: its pod template cannot be read: %s", of.Kind, of.Name, of.Namespace, of.Policy, of.Unreadable)
	}
	return fmt.Sprintf("%s/%s in namespace %s, sized by policy %s in mode %s", of.Kind, of.Name, of.Namespace, of.Policy, of.Mode)
}

// Shares names the identity of a workload that shares its usage history; empty for the others.
func (of *ExplainedWorkload) Shares() string {
	switch {
	case of.Identity == "":
		return ""
	case of.Kind == string(v1alpha1.KindJob):
		return fmt.Sprintf("All Jobs with identity %s share this recommendation.", of.Identity)
	case of.Sharing > 0:
		return fmt.Sprintf("Shares its usage history with identity %s (%s).", of.Identity, Counted(of.Sharing, "workload"))
	}
	return fmt.Sprintf("Shares its usage history with identity %s.", of.Identity)
}

// ModeWith returns the mode of a policy for a table, with status.admission, which is empty or Disabled.
func ModeWith(mode, admission string) string {
	if admission == "" {
		return mode
	}
	return mode + " (admission " + admission + ")"
}

// ModeMeans explains a mode that does not resize running pods; empty for the other modes.
func (of *ExplainedWorkload) ModeMeans() string {
	if why, ok := passive[of.Mode]; ok {
		return fmt.Sprintf("In this mode, %s. Next shows what a mode that resizes running pods would set.", why)
	}
	return ""
}

// container writes one container: for each resource the summary, the holds and the steps, then the pods.
func (w *explanationWriter) container(c ExplainedContainer, wide bool) {
	w.line("Container %s: %s", c.Name, c.Basis())
	for _, r := range recommender.Resources {
		w.line("  %s", c.Summary(r))
		if c.Usage[r] != "" {
			w.line("    usage  %s", c.Usage[r])
		}
		for _, hold := range c.HoldsOf(r) {
			w.line("    blocked, %s", FormatHold(hold))
		}
		for _, g := range c.GrantedOf(r) {
			w.line("    granted, %s", g.String())
		}
		w.columns("    ", c.StepRows(r)) // aligned within one resource
	}
	if len(c.Pods) > 0 {
		w.line("  pods")
	}
	for _, pod := range c.Pods {
		w.pod(pod, wide)
	}
}

// Has says what an injected container requests, and how many pods have it.
func (c InjectedContainer) Has() string {
	text := func(amount *string) string { return cmp.Or(ptr.Deref(amount, ""), "none") }
	return fmt.Sprintf("%d of %d pods have it, with requests of %s CPU and %s memory", c.Pods, c.Of, text(c.Current.CPURequest), text(c.Current.MemoryRequest))
}

// Counted formats a number of things: 1 policy, 2 policies.
func Counted(n int, noun string) string {
	if stem, y := strings.CutSuffix(noun, "y"); n != 1 && y {
		noun = stem + "ies"
	} else if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Basis says how much history the recommendation uses.
func (c ExplainedContainer) Basis() string {
	return fmt.Sprintf("confidence %.2f from %s of history", c.Confidence, Counted(c.DataPoints, "sample"))
}

// FormatHold formats the reason, and the message if there is one.
func FormatHold(h Hold) string {
	if h.Message == "" {
		return h.Reason
	}
	return h.Reason + ": " + h.Message
}

// Summary returns one line such as "cpu: request 500m, next 250m, target 200m; limit 1, next 500m, target 400m".
func (c ExplainedContainer) Summary(r recommender.Resource) string {
	request, limit := c.Values(r)
	if request.Target == nil {
		return fmt.Sprintf("%s: request %s, no recommendation", r, OrNone(r, request.Current))
	}
	line := fmt.Sprintf("%s: request %s", r, request.text(r))
	if limit.Current != nil || limit.Target != nil {
		line += fmt.Sprintf("; limit %s", limit.text(r))
	}
	return line
}

// ExplainedValue is the current, the target and the next value of a request or a limit.
type ExplainedValue struct{ Current, Target, Next *string }

// text returns for example "500m, next 250m, target 200m".
func (v ExplainedValue) text(r recommender.Resource) string {
	return fmt.Sprintf("%s, next %s, target %s", OrNone(r, v.Current), OrNone(r, v.Next), OrNone(r, v.Target))
}

// Values returns the request and the limit of a resource.
func (c ExplainedContainer) Values(r recommender.Resource) (request, limit ExplainedValue) {
	request.Current, limit.Current = c.Current.Of(r)
	request.Target, limit.Target = c.Target.Of(r)
	request.Next, limit.Next = c.Next.Of(r)
	return request, limit
}

// HoldsOf returns the holds on a resource.
func (c ExplainedContainer) HoldsOf(r recommender.Resource) []Hold {
	return slices.DeleteFunc(slices.Clone(c.Holds), func(h Hold) bool { return h.Resource != r.String() })
}

// GrantedOf returns the granted requests of a resource: one at most.
func (c ExplainedContainer) GrantedOf(r recommender.Resource) []Granted {
	return slices.DeleteFunc(slices.Clone(c.Granted), func(g Granted) bool { return g.Resource != r.String() })
}

// StepRows returns the steps of a resource as rows: name, change of the amount, reason.
func (c ExplainedContainer) StepRows(r recommender.Resource) [][3]string {
	steps := slices.DeleteFunc(slices.Clone(c.Steps), func(s Step) bool { return s.Resource != r.String() })
	return podview.Map(steps, func(s Step) [3]string { return [3]string{s.Name, FormatStep(s, r), s.Reason} })
}

// FormatStep returns for example "200m -> 240m", or only the result for the first step, which starts from 0. It is
// empty for a placeholder of the steps that a stored trace leaves out.
func FormatStep(s Step, r recommender.Resource) string {
	before, after := Readable(r, s.Before), Readable(r, s.After)
	if s.Before == "" && s.After == "" {
		return "" // placeholder of the steps that the trace leaves out
	}
	// The first step starts from 0: show only its result.
	switch s.Before {
	case "0":
		return after
	case s.After:
		return "stays " + after
	}
	return before + " -> " + after
}

// pod writes the next resize step of one pod.
func (w *explanationWriter) pod(p ExplainedPod, wide bool) {
	w.line("    %s: %s", p.Name, strings.Join(p.Moves(), ", "))
	for _, hold := range p.Holds {
		if wide {
			w.line("      %s blocked, %s", hold.Resource, FormatHold(hold))
		}
	}
}

// Moves returns what would change in the pod now, one phrase per value.
func (p ExplainedPod) Moves() []string {
	var moves []string
	for _, r := range recommender.Resources {
		request, limit := p.Current.Of(r)
		nextRequest, nextLimit := p.Next.Of(r)
		for _, value := range []struct {
			name          string
			current, next *string
		}{{"request", request, nextRequest}, {"limit", limit, nextLimit}} {
			if value.next != nil && (value.current == nil || *value.current != *value.next) {
				moves = append(moves, fmt.Sprintf("%s %s %s -> %s", r, value.name, OrNone(r, value.current), OrNone(r, value.next)))
			}
		}
	}
	if moves == nil {
		return []string{"no change"}
	}
	return moves
}
