package output

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// KRRContainer is what is written of one container.
type KRRContainer struct {
	Namespace, Kind, Workload, Name string
	// Pods of the workload by name, sorted.
	Pods []string
	// Labels and Annotations of the workload.
	Labels, Annotations map[string]string
	// Current is what the template asks; nil: not known.
	Current *recommender.Size
	// Target is where the container is heading; a request of 0 is not known.
	Target recommender.Size
	// Holds are the reasons for which a resource is left as it is; without a Resource: all of them (KRRHolds).
	Holds []answers.Hold
}

// KRR is the answer of recommendations -o krr: the JSON that robusta-dev/krr writes with -f json, so that scripts that read
// that go on working. What is not known has the value that KRR has for it: "?" for an amount that cannot be told, null for
// one that is not set. NewKRR makes it; KRRHolds says why a workload has no values at all.
type KRR struct {
	Scans []scan `json:"scans"`
	// Score is from 0 to 100: the part of the containers whose size is good.
	Score       int      `json:"score"`
	Resources   []string `json:"resources"`
	Description string   `json:"description"`
	Strategy    strategy `json:"strategy"`
	// Errors, ClusterSummary and Config are always there, and always empty.
	Errors         []any          `json:"errors"`
	ClusterSummary map[string]any `json:"clusterSummary"`
	Config         *struct{}      `json:"config"`
}

type strategy struct {
	Name     string         `json:"name"`
	Settings map[string]any `json:"settings"`
}

// scan is one container.
type scan struct {
	Object      object         `json:"object"`
	Recommended recommended    `json:"recommended"`
	Severity    severity       `json:"severity"`
	Metrics     map[string]any `json:"metrics"`
}

type object struct {
	// Cluster is the context of the kubeconfig; null within a cluster.
	Cluster     *string           `json:"cluster"`
	Name        string            `json:"name"`
	Container   string            `json:"container"`
	Pods        []pod             `json:"pods"`
	HPA         *struct{}         `json:"hpa"`
	Namespace   string            `json:"namespace"`
	Kind        string            `json:"kind"`
	Allocations allocations       `json:"allocations"`
	Warnings    []string          `json:"warnings"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

type pod struct {
	Name    string `json:"name"`
	Deleted bool   `json:"deleted"`
}

type allocations struct {
	Requests perResource[amount] `json:"requests"`
	Limits   perResource[amount] `json:"limits"`
	Info     map[string]string   `json:"info"`
}

type recommended struct {
	Requests perResource[judged]  `json:"requests"`
	Limits   perResource[judged]  `json:"limits"`
	Info     perResource[*string] `json:"info"`
}

type perResource[T any] struct {
	CPU    T `json:"cpu"`
	Memory T `json:"memory"`
}

type judged struct {
	Value    amount   `json:"value"`
	Severity severity `json:"severity"`
}

// amount is in cores or bytes; NaN is not known, negative is not set.
type amount float64

const unset amount = -1

var unknown = amount(math.NaN())

// MarshalJSON implements json.Marshaler.
func (a amount) MarshalJSON() ([]byte, error) {
	switch {
	case math.IsNaN(float64(a)):
		return []byte(`"?"`), nil
	case a < 0:
		return []byte("null"), nil
	}
	return json.Marshal(float64(a))
}

// severity of a difference between what is asked and what is recommended, in KRR's words.
type severity string

const (
	critical   severity = "CRITICAL"
	warning    severity = "WARNING"
	ok         severity = "OK"
	good       severity = "GOOD"
	notKnown   severity = "UNKNOWN"
	mebibyte            = 1 << 20
	millicores          = 1000
)

// worst first.
var severities = []severity{critical, warning, ok, good, notKnown}

// bounds from which on a difference is critical, a warning, or ok: KRR's, in cores and bytes.
var bounds = [2][3]amount{
	recommender.CPU:    {0.5, 0.25, 0.1},
	recommender.Memory: {500 * mebibyte, 250 * mebibyte, 100 * mebibyte},
}

// NewKRR makes the answer of containers, which are in the order in which they are written. cluster is the context of the
// kubeconfig; empty: it is read within the cluster.
func NewKRR(cluster string, containers []KRRContainer) KRR {
	result := KRR{
		Scans: []scan{}, Resources: []string{"cpu", "memory"}, Description: "What attune recommends; what it leaves as it is has a reason in info.",
		Strategy: strategy{Name: "attune", Settings: map[string]any{}}, Errors: []any{}, ClusterSummary: map[string]any{},
	}
	cost := 0.0
	for i := range containers {
		s := scanOf(&containers[i])
		if cluster != "" {
			s.Object.Cluster = &cluster
		}
		result.Scans = append(result.Scans, s)
		cost += map[severity]float64{critical: 1, warning: 0.7}[s.Severity]
	}
	if n := float64(len(containers)); n > 0 {
		result.Score = int((n - cost) / n * 100)
	}
	return result
}

func scanOf(c *KRRContainer) scan {
	s := scan{
		Object: object{
			Name: c.Workload, Container: c.Name, Namespace: c.Namespace, Kind: c.Kind, Pods: []pod{}, Warnings: []string{}, Labels: c.Labels, Annotations: c.Annotations,
			Allocations: allocations{Info: map[string]string{}},
		},
		Metrics: map[string]any{},
	}
	for _, name := range c.Pods {
		s.Object.Pods = append(s.Object.Pods, pod{Name: name})
	}
	of, to := &s.Object.Allocations, &s.Recommended
	of.Requests.CPU, of.Limits.CPU, to.Requests.CPU, to.Limits.CPU, to.Info.CPU = c.resource(recommender.CPU)
	of.Requests.Memory, of.Limits.Memory, to.Requests.Memory, to.Limits.Memory, to.Info.Memory = c.resource(recommender.Memory)
	worst := slices.MinFunc([]judged{to.Requests.CPU, to.Requests.Memory, to.Limits.CPU, to.Limits.Memory}, func(a, b judged) int {
		return cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity))
	})
	s.Severity = worst.Severity
	return s
}

// resource returns what is asked and what is recommended of one resource, and why nothing is.
func (c *KRRContainer) resource(r recommender.Resource) (request, limit amount, wantedRequest, wantedLimit judged, why *string) {
	request, limit = unknown, unknown
	if c.Current != nil {
		request, limit = amountOf(r, c.Current[r].Request), amountOf(r, c.Current[r].Limit)
	}
	toRequest, toLimit := amountOf(r, c.Target[r].Request), amountOf(r, c.Target[r].Limit)
	info, blocked := reasons(c.Holds, r)
	switch {
	case blocked || toRequest == unset:
		// KRR recommends nothing where it found a reason, such as an HPA, either.
		toRequest, toLimit = unknown, unknown
	case toLimit == unset:
		toLimit = limit // it is left as it is
	}
	return request, limit, judge(r, request, toRequest), judge(r, limit, toLimit), info
}

// amountOf is in cores and bytes.
func amountOf(r recommender.Resource, a recommender.Amount) amount {
	switch {
	case a == 0:
		return unset
	case r == recommender.CPU:
		return amount(a) / millicores
	}
	return amount(a)
}

// reasons joins the reasons for which a resource is left as it is; nil: there is none. A change that is too small is a reason,
// and blocks nothing: to make it does no harm.
func reasons(holds []answers.Hold, r recommender.Resource) (why *string, blocked bool) {
	var all []string
	for _, hold := range holds {
		if hold.Resource != "" && hold.Resource != r.String() {
			continue
		}
		blocked = blocked || hold.Reason != string(recommender.SmallChange)
		all = append(all, answers.FormatHold(hold))
	}
	if len(all) == 0 {
		return nil, false
	}
	return new(strings.Join(all, "; ")), blocked
}

// judge a recommended amount by its distance from the present one.
func judge(r recommender.Resource, current, wanted amount) judged {
	of := judged{wanted, notKnown}
	distance := amount(math.Abs(float64(current - wanted)))
	switch {
	case math.IsNaN(float64(current)) || math.IsNaN(float64(wanted)):
	case current == unset && wanted == unset:
		of.Severity = good
	case current == unset || wanted == unset:
		of.Severity = warning
	default:
		of.Severity = good
		if i := slices.IndexFunc(bounds[r][:], func(from amount) bool { return distance >= from }); i >= 0 {
			of.Severity = severities[i]
		}
	}
	return of
}

// Human writes JSON: there is no other form.
func (r KRR) Human(bool) (string, error) {
	text, err := json.Marshal(r)
	return string(text), err
}

// KRRHolds are the reasons for which a workload is left as it is, with all its resources; none: there is none. w is the zero
// value where the workload was not read, settings are nil where those of its policy are not known: without them nobody knows
// whether memory may be lowered.
func KRRHolds(rec *v1alpha1.AttuneRecommendation, w workload.Workload, settings *policy.Settings) []answers.Hold {
	var all []answers.Hold
	add := func(reason, message string) {
		if !slices.ContainsFunc(all, func(h answers.Hold) bool { return h.Reason == reason }) {
			all = append(all, answers.Hold{Reason: reason, Message: message})
		}
	}
	if where, skipped := w.Skipped(); skipped {
		add(answers.ReasonSkipped, where+" is to be left alone")
	} else if w.Template == nil {
		add(answers.ReasonUnknown, "the workload does not exist, or cannot be read")
	}
	// A policy may have become one of the strategy Node after the recommendation was written.
	now := *rec
	if settings != nil && settings.Strategy == v1alpha1.StrategyNode {
		now.Spec.Strategy = v1alpha1.StrategyNode
	}
	if why := answers.WorkloadNotCounted(&now, w, settings); why != nil {
		add(why.Reason, why.Message)
	}
	for _, thing := range answers.BlockedOfWorkload(rec) {
		if thing.Container == "" && !elsewhere(thing, all) {
			add(thing.Reason, thing.Message)
		}
	}
	return all
}

// elsewhere reports whether the thing is no reason to keep a value back: a mode that changes no pods is what scripts are for,
// and a seed may be withheld for what its resources, or the reasons so far, say themselves.
func elsewhere(thing answers.Blocked, said []answers.Hold) bool {
	if thing.Reason != answers.SeedWithheld {
		return thing.Reason == resize.ReasonMode
	}
	return strings.HasPrefix(thing.Message, "Mode") || thing.Message == "Held" ||
		slices.ContainsFunc(said, func(h answers.Hold) bool { return h.Reason == thing.Message })
}
