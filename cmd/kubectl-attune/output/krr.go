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
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// KRRContainer is the input for one container.
type KRRContainer struct {
	Namespace, Kind, Workload, Name string
	// Pods are the names of the workload's pods, sorted.
	Pods []string
	// Labels and Annotations belong to the workload.
	Labels, Annotations map[string]string
	// Current has the requests and limits of the template; nil if not known.
	Current *recommender.Size
	// Target is the recommended size; a request of 0 is not known.
	Target recommender.Size
	// Holds are the reasons that block a resource; without a Resource they block all (KRRBlocked).
	Holds []answers.Hold
}

// KRR is the answer of recommendations -o krr: the JSON of robusta-dev/krr with -f json, so that scripts for KRR keep
// working. It uses KRR's values for missing data: "?" for an unknown amount, null for one that is not set. NewKRR
// builds it; KRRBlocked returns why a workload has no values at all.
type KRR struct {
	Scans []scan `json:"scans"`
	// Score is from 0 to 100: the share of containers with a good size.
	Score       int      `json:"score"`
	Resources   []string `json:"resources"`
	Description string   `json:"description"`
	Strategy    strategy `json:"strategy"`
	// Errors, ClusterSummary and Config are always present, and always empty.
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

// amount is in cores or bytes. NaN means not known, a negative value not set.
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

// severity rates the difference between the template and the recommendation, in KRR's terms.
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

// severities are sorted, worst first.
var severities = []severity{critical, warning, ok, good, notKnown}

// bounds are KRR's minimum differences for critical, warning and ok, in cores and bytes.
var bounds = [2][3]amount{
	recommender.CPU:    {0.5, 0.25, 0.1},
	recommender.Memory: {500 * mebibyte, 250 * mebibyte, 100 * mebibyte},
}

// NewKRR builds the answer for containers, in their order. cluster is the context of the kubeconfig; empty within a
// cluster.
func NewKRR(cluster string, containers []KRRContainer) KRR {
	result := KRR{
		Scans: []scan{}, Resources: []string{"cpu", "memory"}, Description: "Recommendations of attune; for blocked resources, info has the reason.",
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
			Name: c.Workload, Container: c.Name, Namespace: c.Namespace, Kind: c.Kind, Warnings: []string{}, Labels: c.Labels, Annotations: c.Annotations,
			Allocations: allocations{Info: map[string]string{}},
			Pods:        append([]pod{}, podview.Map(c.Pods, func(name string) pod { return pod{Name: name} })...),
		},
		Metrics: map[string]any{},
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

// resource returns the present and the recommended amounts of one resource, and the reasons that block it.
func (c *KRRContainer) resource(r recommender.Resource) (request, limit amount, wantedRequest, wantedLimit judged, why *string) {
	request, limit = unknown, unknown
	if c.Current != nil {
		request, limit = amountOf(r, c.Current[r].Request), amountOf(r, c.Current[r].Limit)
	}
	toRequest, toLimit := amountOf(r, c.Target[r].Request), amountOf(r, c.Target[r].Limit)
	info, blocked := reasons(c.Holds, r)
	switch {
	case blocked || toRequest == unset:
		// KRR also recommends nothing if it found a reason, such as an HPA.
		toRequest, toLimit = unknown, unknown
	case toLimit == unset:
		toLimit = limit // the limit does not change
	}
	return request, limit, judge(r, request, toRequest), judge(r, limit, toLimit), info
}

// amountOf converts an amount to cores or bytes.
func amountOf(r recommender.Resource, a recommender.Amount) amount {
	switch {
	case a == 0:
		return unset
	case r == recommender.CPU:
		return amount(a) / millicores
	}
	return amount(a)
}

// reasons joins the reasons of a resource; nil if there are none. A change that is too small is a reason too, but does
// not block, because applying it is harmless.
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

// judge rates a recommended amount by its distance from the present one.
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

// Human writes JSON, the only form of this answer.
func (r KRR) Human(bool) (string, error) {
	text, err := json.Marshal(r)
	return string(text), err
}

// KRRBlocked returns the reasons that block all resources of a workload. w is the zero value if the workload was not
// read. settings are nil if the settings of its policy are not known: then it is unknown whether memory may be
// lowered.
func KRRBlocked(rec *v1alpha1.AttuneRecommendation, w workload.Workload, settings *policy.Settings) []answers.Hold {
	var all []answers.Hold
	add := func(reason, message string) {
		if !slices.ContainsFunc(all, func(h answers.Hold) bool { return h.Reason == reason }) {
			all = append(all, answers.Hold{Reason: reason, Message: message})
		}
	}
	if where, skipped := w.Skipped(); skipped {
		add(answers.ReasonSkipped, "attune skips "+where)
	} else if w.Template == nil {
		add(answers.ReasonUnknown, "the workload does not exist, or cannot be read")
	}
	// The policy may have changed to strategy Node after the recommendation was written.
	now := *rec
	if settings != nil && settings.Strategy == v1alpha1.StrategyNode {
		now.Spec.Strategy = v1alpha1.StrategyNode
	}
	if why := answers.WorkloadNotCounted(&now, w, settings); why != nil {
		add(why.Reason, why.Message)
	}
	for _, thing := range answers.BlockedOfWorkload(rec) {
		if thing.Container == "" && !elsewhere(thing, rec.Spec.SeedBlocked, all) {
			add(thing.Reason, thing.Message)
		}
	}
	return all
}

// elsewhere reports whether the reason does not block a value. Scripts are made for modes that change no pods. The
// reason of a blocked seed may already be in said.
func elsewhere(thing answers.Blocked, seedBlocked string, said []answers.Hold) bool {
	if thing.Reason != answers.SeedBlocked {
		return thing.Reason == resize.ReasonMode
	}
	return slices.ContainsFunc(said, func(h answers.Hold) bool { return h.Reason == seedBlocked })
}
