package pod

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/ports"
	"attune.io/attune/internal/workload"
)

// Path is the URL path under which the API server calls the handler.
const Path = "/mutate-pod"

// maxBody limits the body of a review, in bytes; the limit of webhook/server applies first.
const maxBody = 4 << 20

// Handler answers admission reviews of pods. It never rejects a pod and never calls the API server. A review that it
// cannot read gets an HTTP error, which the webhook's failurePolicy (Ignore) turns into an unchanged pod. Every other
// review is allowed, with or without a patch. It is safe for concurrent use as long as its fields are not changed.
type Handler struct {
	// Known returns facts about workloads and namespaces from memory.
	Known Known
	// Metrics count the decisions; not nil.
	Metrics *Metrics
	// Clock gives the time that a seed's expiry is compared with.
	Clock clock.PassiveClock
	// Log gets each decision at level 1, and failures at level 0.
	Log logr.Logger
}

// ServeHTTP answers one review. It answers status 400 if the body cannot be read, and 413 if it is larger than
// maxBody.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := h.Clock.Now()
	body, err := ports.Body(w, r, maxBody)
	var answer []byte
	if err == nil {
		answer, err = h.Answer(body)
	}
	if err != nil {
		h.refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(answer); err != nil {
		h.Log.V(1).Info("Cannot send an admission response; the API server closed the connection", "error", err)
	}
	h.Metrics.duration.Observe(h.Clock.Since(start).Seconds())
}

// refuse answers a body that is not a review. The API server then applies failurePolicy Ignore.
func (h *Handler) refuse(w http.ResponseWriter, err error) {
	status := http.StatusBadRequest
	if errors.As(err, new(*http.MaxBytesError)) {
		status = http.StatusRequestEntityTooLarge
	}
	h.Metrics.total.WithLabelValues(string(Unreadable)).Inc()
	why := clip.Marked(err.Error(), 1<<10) // a decoder's error quotes the input
	h.Log.Info("Cannot read an admission review; the pod is created unchanged", "error", why)
	http.Error(w, why, status)
}

// errNoReview is returned for a body without a request or its UID, or with too long names, which an answer would
// repeat.
var errNoReview = errors.New("the body is not an AdmissionReview with a request")

// Answer returns the answer to a review, both as JSON. An error means that the body is not a review with a UID, so
// that there is no answer. A review whose pod cannot be read gets an answer that leaves the pod unchanged.
func (h *Handler) Answer(body []byte) ([]byte, error) {
	if in := h.withoutRecommendations(body); in != nil {
		d := Decision{Reason: NoRecommendation}
		h.report(in.Request, &d)
		return respond(in, &d), nil
	}
	var in review
	err := json.Unmarshal(body, &in)
	if !in.answerable() {
		return nil, errors.Join(errNoReview, err)
	}
	d := h.decide(in.Request, err)
	h.report(in.Request, &d)
	return respond(&in, &d), nil
}

// withoutRecommendations returns a review without its pod if the pod is created in a namespace without recommendations:
// the answer does not depend on the pod, which is most of the review. With the chart's webhook.namespaces:
// AllButDisabled most namespaces may be such. nil: the whole review has to be decoded.
//
// It reads the JSON as the API server writes it, with the namespace before the object and dryRun after it. Any other JSON,
// and a dry run, is decoded as a whole.
func (h *Handler) withoutRecommendations(body []byte) (in *review) {
	defer func() {
		if recover() != nil { // decide reports the panic, if it meets it too
			in = nil
		}
	}()
	head, object, found := bytes.Cut(body, []byte(`,"object":{`))
	if !found || !bytes.Contains(object, []byte(`"dryRun":false`)) {
		return nil
	}
	_, namespace, _ := bytes.Cut(head, []byte(`"namespace":"`))
	if namespace, _, found = bytes.Cut(namespace, []byte(`"`)); !found || h.Known.Recommends(string(namespace)) {
		return nil
	}
	in = &review{}
	err := json.Unmarshal(append(head[:len(head):len(head)], `}}`...), in)
	if err != nil || !in.answerable() || !in.Request.createsPod() || h.Known.Recommends(in.Request.Namespace) {
		return nil
	}
	return in
}

// probeAnswer is the patch of a probe (v1alpha1.ProbeAnnotation): the API server shows its sender what the webhook changed.
var probeAnswer = []byte(`[{"op":"replace","path":"/metadata/annotations/` + strings.ReplaceAll(v1alpha1.ProbeAnnotation, "/", "~1") + `","value":"` + v1alpha1.ProbeAnswered + `"}]`)

// decide returns the decision on a request. It never panics: a defect in attune must not prevent a pod.
func (h *Handler) decide(r *request, unreadable error) (d Decision) {
	defer func() {
		if p := recover(); p != nil {
			d = Decision{Reason: Failed, Message: fmt.Sprint(p)}
		}
	}()
	switch {
	case !r.createsPod():
		return Decision{Reason: NotAPod}
	case unreadable != nil:
		return Decision{Reason: Unreadable, Message: unreadable.Error()}
	case r.DryRun && r.Object.Metadata.Annotations[v1alpha1.ProbeAnnotation] == v1alpha1.ProbeAsked:
		return Decision{Reason: Probed, Patch: probeAnswer}
	}
	of, ok := workload.OwnerOf(r.Object.object(), r.Namespace, nil)
	if !ok {
		return Decision{Reason: NoOwner}
	}
	return SeedPod(&r.Object, h.recommendation(of, &r.Object), h.Known.Namespace(r.Namespace), h.Clock.Now())
}

// recommendation returns the recommendation for a new pod of a workload. A workload that was just created has none yet:
// it starts with that of the newest workload with its identity. nil: there is none.
func (h *Handler) recommendation(of workload.Identity, p *Pod) *Recommendation {
	own := h.Known.Recommendation(of)
	switch shared := workload.SharedIn(p.Metadata.Labels); {
	case shared == "":
		return own
	case own == nil:
		return h.Known.Newest(of, shared).forNew(of, p)
	case of.IsShared() && !own.holds(p):
		return nil
	}
	return own
}

// report counts and logs a decision. A dry run creates no pod, so it is not counted.
func (h *Handler) report(r *request, d *Decision) {
	if !r.DryRun {
		h.Metrics.total.WithLabelValues(string(d.Reason)).Inc()
	}
	log := h.Log
	if d.Reason != Failed {
		log = log.V(1)
	}
	if log.Enabled() {
		log.Info("Reviewed a new pod", "namespace", r.Namespace, "uid", r.UID, "dryRun", r.DryRun,
			"reason", d.Reason, "message", d.Message, "blocked", d.Blocked, "patch", string(d.Patch))
	}
}

// Metrics are the counters of admission, labelled by Reason, and the time to answer. NewMetrics creates them.
type Metrics struct {
	// total counts decisions by reason, duration measures the answers in seconds.
	total    *prometheus.CounterVec
	duration prometheus.Histogram
}

// NewMetrics registers attune_admission_total and attune_admission_duration_seconds. It panics if they are already
// registered.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "attune_admission_total",
			Help: "Number of pods at admission, without dry runs, by result: Seeded, or the reason why the webhook did not change the pod.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "attune_admission_duration_seconds",
			Help:    "Time in seconds to answer one admission review.",
			Buckets: []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .1, 1},
		}),
	}
	registry.MustRegister(m.total, m.duration)
	return m
}
