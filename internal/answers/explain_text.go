package answers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"attune.io/attune/recommender"
)

// Human writes the explanation as text, with one line for each step of the computation. wide adds the holds of
// every pod. The text is for people and may change.
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
	out.settings(e.Settings, wide)
	return out.String(), nil
}

// explanationWriter collects the text.
type explanationWriter struct{ strings.Builder }

// line writes one line: texts have been written by others.
func (w *explanationWriter) line(format string, args ...any) {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = InLine(text)
		}
	}
	fmt.Fprintf(w, format+"\n", args...)
}

// passive has the modes in which running pods are left alone, and what each means.
var passive = map[string]string{
	"Observe":   "it only observes: nothing is applied",
	"Recommend": "it only recommends: nothing is applied",
	"Initial":   "it sizes new pods only: running ones are not touched",
}

// workload writes the heading, and what a passive mode means.
func (w *explanationWriter) workload(of *ExplainedWorkload) {
	w.line("%s", of.Sentence())
	if means := of.ModeMeans(); means != "" {
		w.line("%s", means)
	}
}

// settings writes those that an object sets, in columns, and if wide those that are built in.
func (w *explanationWriter) settings(settings []Setting, wide bool) {
	shown := slices.DeleteFunc(slices.Clone(settings), func(s Setting) bool { return s.builtIn && !wide })
	if len(shown) == 0 {
		return
	}
	w.line("\nSettings")
	var rows [][3]string
	for _, s := range shown {
		rows = append(rows, [3]string{s.Field, cmp.Or(s.Value, "-"), s.SetBy})
	}
	w.columns("  ", rows)
}

// columns writes aligned rows.
func (w *explanationWriter) columns(indent string, rows [][3]string) {
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintf(out, "%s%s\t%s\t%s\n", indent, InLine(row[0]), InLine(row[1]), InLine(row[2]))
	}
	_ = out.Flush() // a builder takes everything
}

// Sentence names the workload and what sizes it, or why nothing does.
func (of *ExplainedWorkload) Sentence() string {
	if of.Unreadable != "" {
		return fmt.Sprintf("%s/%s in namespace %s, selected by policy %s, is left alone: its pod template cannot be read: %s", of.Kind, of.Name, of.Namespace, of.Policy, of.Unreadable)
	}
	return fmt.Sprintf("%s/%s in namespace %s, sized by policy %s in mode %s", of.Kind, of.Name, of.Namespace, of.Policy, of.Mode)
}

// ModeMeans says what a mode means in which running pods are left alone; empty for the others.
func (of *ExplainedWorkload) ModeMeans() string {
	if why, ok := passive[of.Mode]; ok {
		return fmt.Sprintf("The mode means: %s. What it says of the next step is what another mode would do.", why)
	}
	return ""
}

// container writes one container: for each resource its summary, holds and steps, then the pods.
func (w *explanationWriter) container(c ExplainedContainer, wide bool) {
	w.line("Container %s: %s", c.Name, c.Basis())
	for _, r := range recommender.Resources {
		w.line("  %s", c.Summary(r))
		if c.Usage[r] != "" {
			w.line("    usage  %s", c.Usage[r])
		}
		for _, hold := range c.Holds {
			if hold.Resource == r.String() {
				w.line("    held, %s", FormatHold(hold))
			}
		}
		w.steps(c, r)
	}
	if len(c.Pods) > 0 {
		w.line("  pods")
	}
	for _, pod := range c.Pods {
		w.pod(pod, wide)
	}
}

// Basis says how much history the container has.
func (c ExplainedContainer) Basis() string {
	return fmt.Sprintf("confidence %.2f from %d steps of history", c.Confidence, c.DataPoints)
}

// FormatHold writes the reason and, where there is one, the message.
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

// ExplainedValue is a request or a limit: what it is, what it should be, and what it will be next.
type ExplainedValue struct{ Current, Target, Next *string }

// text is such as "500m, next 250m, target 200m".
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

// steps writes the computation of one resource in columns: name, change of the amount, reason.
func (w *explanationWriter) steps(c ExplainedContainer, r recommender.Resource) {
	// Columns are aligned within one resource of one container.
	var rows [][3]string
	for _, step := range c.Steps {
		if step.Resource == r.String() {
			rows = append(rows, [3]string{step.Name, FormatStep(step, r), step.Reason})
		}
	}
	w.columns("    ", rows)
}

// FormatStep is such as "200m -> 240m". The first step of a chain starts from nothing.
// It is empty for a step that stands for others that were left out of a stored trace.
func FormatStep(s Step, r recommender.Resource) string {
	before, after := Readable(r, s.Before), Readable(r, s.After)
	if s.Before == "" && s.After == "" {
		return "" // it stands for steps that are left out
	}
	// The first step of a chain begins with 0: only its result means something.
	switch s.Before {
	case "0":
		return after
	case s.After:
		return "stays " + after
	}
	return before + " -> " + after
}

// pod writes one pod's next step.
func (w *explanationWriter) pod(p ExplainedPod, wide bool) {
	w.line("    %s: %s", p.Name, strings.Join(p.Moves(), ", "))
	for _, hold := range p.Holds {
		if wide {
			w.line("      %s held, %s", hold.Resource, FormatHold(hold))
		}
	}
}

// Moves returns what would change in the pod now, one phrase for each value.
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
		return []string{"stays as it is"}
	}
	return moves
}
