package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// workloadPage is the model of a workload's page.
type workloadPage struct {
	At                             time.Time
	Name, Namespace, NamespacePath string
	// Sentence and ModeMeans are the texts of kubectl attune explain. Facts come from the recommendation's status and
	// spec.
	Sentence, ModeMeans, NewPods string
	InitContainers               []string
	Facts                        []fact
	// Problem says why there is no explanation, Note which part of it is missing.
	Problem, Note string
	// Blocked lists the reasons that block the whole workload.
	Blocked    []answers.Blocked
	Commands   []string
	Containers []container
	// Saving is nil if it is not known.
	Saving *saving
	Tables []table
}

// fact is a name and a value.
type fact struct{ Name, Value string }

// table is a titled part of the page with rows of texts.
type table struct {
	Title  string
	Header []string
	Rows   [][]string
	// More counts the rows that are not shown.
	More int
}

// tableOf returns a table with a row for each element.
func tableOf[T any](title string, header []string, of []T, row func(T) []string) table {
	return table{Title: title, Header: header, Rows: podview.Map(of, row)}
}

// container is one container.
type container struct {
	ID, Name, Basis string
	Resources       []resourcePart
	// Pods has the next resizes of the first mostPods pods. PodsMore counts the other pods.
	Pods     []fact
	PodsMore int
}

// resourcePart is one resource of a container.
type resourcePart struct {
	Name  string
	Label string
	// Amounts has a row for the request and one for the limit: name, current, next, target.
	Amounts [][4]string
	Holds   []string
	Granted []string
	Steps   [][3]string
	Chart   *usageChart
}

// workloadOf builds the model.
func workloadOf(rec *v1alpha1.AttuneRecommendation, explained Explained, usage map[string][]recommender.StepUsage, beside Beside, at time.Time) workloadPage {
	id := workload.IdentityOf(rec)
	out := workloadPage{
		At: at, Name: id.String(), Namespace: id.Namespace, NamespacePath: namespacePath(id.Namespace),
		Problem: explained.Problem, Note: explained.Note, Facts: factsOf(rec), Commands: commands(rec), Saving: savingOf(beside.Saved),
	}
	if w := explained.Workload; w != nil {
		out.Sentence, out.ModeMeans, out.NewPods, out.InitContainers = w.Sentence(), w.ModeMeans(), w.NewPods, w.InitContainers
	}
	out.Blocked = slices.DeleteFunc(answers.BlockedOfWorkload(rec), func(thing answers.Blocked) bool { return thing.Container != "" })
	for i, c := range explained.Containers {
		out.Containers = append(out.Containers, containerOf(fmt.Sprintf("container-%d", i), drawn{c, rec, usage[c.Name], beside.Trails[c.Name]}))
	}
	tables := []table{recordsOf(rec), historyOf(rec), eventsOf(beside.Events), floorsOf(rec), conditionsOf(rec), settingsOf(beside.Settings, rec), originalsOf(rec)}
	out.Tables = slices.DeleteFunc(tables, func(t table) bool { return len(t.Rows) == 0 })
	return out
}

// factsOf summarizes the recommendation.
func factsOf(rec *v1alpha1.AttuneRecommendation) []fact {
	facts := []fact{{"phase", orDash(string(rec.Status.Phase))}}
	if p := rec.Status.Pods; p != nil {
		facts = append(facts, fact{"pods", fmt.Sprintf("%d, at target %d, in-flight resizes %d", p.Total, p.AtTarget, p.Open)})
	}
	if until := rec.Spec.DataUntil; until != nil {
		facts = append(facts, fact{"usage until", utc(until.Time)})
	}
	if from := rec.Status.CooldownFrom; from != nil {
		facts = append(facts, fact{"cooldown from", utc(from.Time)})
	}
	if next := answers.NextResize(rec); next != "" {
		_, when, _ := strings.Cut(strings.TrimSuffix(next, "."), ": ")
		facts = append(facts, fact{"next resize", when})
	}
	if b := rec.Status.Backoff; b != nil && b.ConsecutiveReverts > 0 {
		facts = append(facts, fact{"consecutive reverts", fmt.Sprint(b.ConsecutiveReverts)})
	}
	return facts
}

// commands returns commands that a viewer may want to copy.
func commands(rec *v1alpha1.AttuneRecommendation) []string {
	verbs := []string{"explain", "pause", "undo"}
	if _, paused := answers.PausedBy(rec); paused {
		verbs = []string{"explain", "resume", "undo"}
	}
	about := strings.ToLower(string(rec.Spec.Workload.Kind)) + "/" + rec.Spec.Workload.Name
	return podview.Map(verbs, func(verb string) string { return fmt.Sprintf("kubectl attune %s %s -n %s", verb, about, rec.Namespace) })
}

func containerOf(id string, of drawn) container {
	c := of.container
	out := container{ID: id, Name: c.Name, Basis: c.Basis(), PodsMore: max(0, len(c.Pods)-mostPods)}
	for _, r := range recommender.Resources {
		part := resourcePart{Name: r.String(), Label: c.Name + ", " + r.String(), Amounts: amountsOf(c, r), Steps: c.StepRows(r)}
		part.Holds = podview.Map(c.HoldsOf(r), answers.FormatHold)
		part.Granted = podview.Map(c.GrantedOf(r), answers.Granted.String)
		if usage, ok := chartOf(of, r); ok {
			usage.ID = id + "-" + r.String()
			part.Chart = &usage
		}
		out.Resources = append(out.Resources, part)
	}
	out.Pods = podview.Map(c.Pods[:min(len(c.Pods), mostPods)], func(pod answers.ExplainedPod) fact { return fact{pod.Name, strings.Join(pod.Moves(), ", ")} })
	return out
}

// amountsOf returns the row of the request, and the row of the limit if a limit is set or recommended.
func amountsOf(c answers.ExplainedContainer, r recommender.Resource) [][4]string {
	row := func(name string, v answers.ExplainedValue) [4]string {
		return [4]string{name, answers.OrNone(r, v.Current), answers.OrNone(r, v.Next), answers.OrNone(r, v.Target)}
	}
	request, limit := c.Values(r)
	if limit.Current == nil && limit.Target == nil {
		return [][4]string{row("request", request)}
	}
	return [][4]string{row("request", request), row("limit", limit)}
}

func recordsOf(rec *v1alpha1.AttuneRecommendation) table {
	header := []string{"pod", "node", "phase", "recorded", "from", "to", "deadline", "reason"}
	return tableOf("In-flight resizes", header, rec.Status.Records, func(r v1alpha1.ResizeRecord) []string {
		deadline := cmp.Or(r.Deadline, r.WatchUntil)
		return []string{r.PodName, orDash(r.Node), string(r.Phase), utc(r.WrittenAt.Time), sizes(r.Prior), sizes(r.Desired), when(deadline), orDash(r.Reason)}
	})
}

func historyOf(rec *v1alpha1.AttuneRecommendation) table {
	header := []string{"time", "pod", "container", "resource", "from", "to", "method", "result", "reason"}
	return tableOf("History", header, rec.Status.History, func(e v1alpha1.HistoryEntry) []string {
		return []string{utc(e.Timestamp.Time), orDash(e.Pod), e.Container, e.Resource, e.From, e.To, e.Method, e.Result, orDash(e.Reason)}
	})
}

func floorsOf(rec *v1alpha1.AttuneRecommendation) table {
	learned := slices.DeleteFunc(slices.Clone(rec.Status.Floors), func(f v1alpha1.Floor) bool { return f.Amount.IsZero() }) // a kill of the node teaches nothing
	return tableOf("Learned minimums", []string{"container", "resource", "amount", "reason", "learned"}, learned, func(f v1alpha1.Floor) []string {
		return []string{f.Container, f.Resource, answers.Readable(recommender.ResourceOf(f.Resource), f.Amount.String()), f.Reason, utc(f.LearnedAt.Time)}
	})
}

func conditionsOf(rec *v1alpha1.AttuneRecommendation) table {
	return tableOf("Conditions", []string{"type", "status", "reason", "message", "since"}, rec.Status.Conditions, func(c metav1.Condition) []string {
		return []string{c.Type, string(c.Status), c.Reason, orDash(c.Message), utc(c.LastTransitionTime.Time)}
	})
}

func originalsOf(rec *v1alpha1.AttuneRecommendation) table {
	t := table{Title: "Original resources", Header: []string{"template", "since", "resources"}}
	for i := len(rec.Status.Originals) - 1; i >= 0; i-- {
		o := rec.Status.Originals[i]
		t.Rows = append(t.Rows, []string{o.TemplateHash, when(o.Since), sizes(o.Containers)})
	}
	return t
}

// sizes formats the requests and limits of containers in one line.
func sizes(of []v1alpha1.ContainerResources) string {
	var all []string
	for _, c := range of {
		a := answers.AmountsOf(podview.FromResources(c.Resources))
		var parts []string
		for _, r := range recommender.Resources {
			request, limit := a.Of(r)
			if request != nil {
				parts = append(parts, r.String()+" request "+answers.OrNone(r, request))
			}
			if limit != nil {
				parts = append(parts, r.String()+" limit "+answers.OrNone(r, limit))
			}
		}
		if parts == nil {
			parts = []string{"not set"}
		}
		all = append(all, c.Name+": "+strings.Join(parts, ", "))
	}
	return strings.Join(all, "; ")
}

func when(t *metav1.Time) string {
	if t == nil {
		return "–"
	}
	return utc(t.Time)
}

func orDash(text string) string { return cmp.Or(text, "–") }

// Beside has the data that a workload's page shows in addition to the explanation. Unknown parts are empty.
type Beside struct {
	// Trails has the requests, limits and targets over time that the leader recorded, by container.
	Trails map[string]event.Trail
	// Saved has the workload's savings.
	Saved *answers.SavingsEntry
	// Settings has the settings of its policy, in the order of their paths.
	Settings []policy.Field
	// Events has the events that this leader sent, newest first.
	Events []event.SentEvent
}

// mostSettings limits the rows of the settings. It exceeds the number of fields.
const mostSettings = 200

// settingsOf returns a row for each setting, as explain shows them.
func settingsOf(fields []policy.Field, rec *v1alpha1.AttuneRecommendation) table {
	t := tableOf("Settings", []string{"field", "value", "set by"}, answers.SettingsOf(fields, rec), func(s answers.Setting) []string {
		return []string{s.Field, orDash(s.Value), s.SetBy}
	})
	t.More = max(0, len(t.Rows)-mostSettings)
	t.Rows = t.Rows[:len(t.Rows)-t.More]
	return t
}

// eventsOf returns a row for each event.
func eventsOf(events []event.SentEvent) table {
	return tableOf("Events since this leader started", []string{"time", "type", "reason", "pod", "message"}, events, func(e event.SentEvent) []string {
		return []string{utc(e.At), e.Type, e.Reason, orDash(e.Pod), e.Message}
	})
}
