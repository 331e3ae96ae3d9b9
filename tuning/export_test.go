package tuning

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	"attune.io/attune/resize/lifecycle"
)

// Unexported names for tests.
const (
	LookAgain     = lookAgain
	MetadataBytes = metadataBytes
	StepsOfOne    = stepsOfOne
	DownNode      = downNode
)

var (
	BlockedCondition = blockedCondition
	SeededOf         = seededOf
	TopicsOf         = topicsOf
	CountsOf         = countsOf
	TookOf           = tookOf
	StoredStatus     = storedStatus
)

type (
	Refusals = refusals
	Tally    = tally
)

func (r refusals) Of() []tally                                      { return r.of }
func (r refusals) Topics() []Topic                                  { return r.topics }
func (r refusals) Summary() *resize.Refusal                         { return r.summary() }
func (r refusals) After(now time.Time) time.Duration                { return r.after(now) }
func (r *refusals) Add(pod *corev1.Pod, refusal *resize.Refusal)    { r.add(pod, refusal) }
func (v *View) DataUntil() time.Time                                { return v.dataUntil() }
func (v *View) SignalsOf(record v1alpha1.ResizeRecord) harm.Signals { return v.signals(record) }

// Pass gives tests access to the deciders of one reconcile.
type Pass struct{ *deciders }

// NewPass returns the deciders for a view and a status, before any decision.
func NewPass(v View, status v1alpha1.AttuneRecommendationStatus) Pass {
	if v.Rec == nil {
		v.Rec = &v1alpha1.AttuneRecommendation{}
	}
	return Pass{newDeciders(v, status)}
}

// Refused runs a reconcile and returns why pods are not resized.
func Refused(v View) Refusals {
	d := newDeciders(v, storedStatus(v))
	d.decide()
	return d.reports.refused
}

func (p Pass) Status() v1alpha1.AttuneRecommendationStatus  { return p.soFar() }
func (p Pass) Events() []Event                              { return p.reports.events }
func (p Pass) Input(pod *corev1.Pod) resize.GateInput       { return p.gates.input(pod) }
func (p Pass) Eviction(plan resize.Plan) lifecycle.Eviction { return p.evictor.eviction(plan) }
func (p Pass) Wishes(pod *corev1.Pod) []podview.Container   { return p.starter.nextSizes(pod) }
func (p Pass) Learn()                                       { p.learned.learnOOMFloors() }
func (p Pass) Skip(refusal *resize.Refusal)                 { p.reportRefusal(refusal) }
func (p Pass) TooLarge(pod *corev1.Pod) bool                { return p.records.tooLarge(pod) }

// SetTries sets the tries, SetCondition a condition of the status.
func (p Pass) SetTries(list ...v1alpha1.Try)   { p.tries.list = list }
func (p Pass) SetCondition(c metav1.Condition) { p.status.Conditions = []metav1.Condition{c} }

// Reserve sets the room that this reconcile has already assigned, and the pod that is resized although its node has
// no room.
func (p Pass) Reserve(reserved recommender.Size, onNode map[string]recommender.Size, moving types.UID) {
	g := &p.gates
	g.reserved, g.reservedOn, g.moving = reserved, onNode, moving
}
