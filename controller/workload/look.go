package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
	"attune.io/attune/usage"
)

// mostLooks bounds how often one pass looks closer. Each look answers all unknowns of a decision, and what it finds
// may raise a few new ones: without a rival for the same room a decision settles far sooner.
const mostLooks = 5

// decided is a decision, with the turns that were taken for it of what may begin now in all workloads. Those of writes
// that are not sent are given back.
type decided struct {
	tuning.Decision
	turns int
}

// decide decides, and again after every closer look, until nothing that is done rests on what was not looked at and
// the room it takes is promised to it alone. Where rivals for the room keep it from settling, it begins nothing new
// and decides the rest. A decision that comes too soon to be carried out takes neither room nor a turn from others.
func (c *Controller) decide(ctx context.Context, w *tuning.View) decided {
	key := client.ObjectKeyFromObject(w.Rec)
	w.Begin.Reserved, w.Looked.Rooms = c.reservations.read(), nil
	for range mostLooks {
		d := tuning.Decide(*w)
		switch {
		case looker{c}.answer(ctx, w, d.Unknowns):
		case w.Part == tuning.WholePass && c.early(*w, d) > 0:
			return decided{Decision: d}
		case !c.reservations.make(key, tuning.ReservationsOf(d.Status.Records, w.Pod), w.Begin.Reserved):
			w.Begin.Reserved, w.Looked.Rooms = c.reservations.read(), nil
		case w.Begin.Wait == 0 && c.full(w, d.Begins()):
		default:
			return decided{d, d.Begins()}
		}
	}
	return decided{Decision: c.decideWithoutNew(ctx, w)}
}

// full: as many resizes are begun in all workloads as may be for now; this one's have to wait.
func (c *Controller) full(w *tuning.View, begins int) bool {
	w.Begin.Wait = c.limit.take(begins, w.Now)
	return w.Begin.Wait > 0
}

// decideWithoutNew decides what is open, when a pass could not settle what is new.
func (c *Controller) decideWithoutNew(ctx context.Context, w *tuning.View) tuning.Decision {
	incomplete.WithLabelValues(whatUnsettled).Inc()
	log.FromContext(ctx).Info("Nothing new is begun in this pass: other workloads kept taking the room that it counted on", "looks", mostLooks)
	w.Close(&resize.Refusal{Reason: resize.ReasonUnsettled, Transient: true, PodWide: true,
		Message: "other workloads took the room that was counted on while it was looked at"})
	d := tuning.Decide(*w)
	if (looker{c}).answer(ctx, w, d.Unknowns) {
		d = tuning.Decide(*w)
	}
	c.reservations.renew(client.ObjectKeyFromObject(w.Rec), tuning.ReservationsOf(d.Status.Records, w.Pod))
	return d
}

// looker looks closer, where a decision asks for it.
type looker struct{ *Controller }

// answer answers tuning.Unknowns; false: there are none. What cannot be read is noted, and asked no more in this pass.
func (c looker) answer(ctx context.Context, w *tuning.View, asks tuning.Unknowns) bool {
	for _, node := range asks.Rooms {
		if err := c.room(ctx, w, node); err != nil {
			w.Looked.Unread.SetNode(node, notKnown(ctx, whatRoom, err))
		}
	}
	for _, uid := range asks.Live {
		if err := c.livePod(ctx, w, uid); err != nil {
			w.Looked.Unread.SetPod(uid, notKnown(ctx, whatPod, err))
		}
	}
	if asks.Nodes {
		if err := c.allNodes(ctx, w); err != nil {
			w.Looked.Unread.Cluster = notKnown(ctx, whatNodes, err)
		}
	}
	c.askMemory(ctx, w, asks.Memory)
	return !asks.None()
}

func (c looker) room(ctx context.Context, w *tuning.View, node string) error {
	list := &corev1.PodList{}
	if err := c.Client.List(ctx, list, client.MatchingFields{byNode: node}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing pods of node %s: %w", node, err)
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	if w.Looked.Rooms == nil {
		w.Looked.Rooms = map[string]*resize.Room{}
	}
	w.Looked.Rooms[node] = resize.RoomOf(pods, w.Begin.Reserved.OnNode(node), w.Now)
	return nil
}

func (c looker) allNodes(ctx context.Context, w *tuning.View) error {
	list := &corev1.NodeList{}
	if err := c.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	w.Looked.Cluster = make([]*corev1.Node, 0, len(list.Items))
	for i := range list.Items {
		w.Looked.Cluster = append(w.Looked.Cluster, &list.Items[i])
	}
	return nil
}

// livePod puts the pod as the API server has it in the place of the cached one.
func (c looker) livePod(ctx context.Context, w *tuning.View, uid types.UID) error {
	i := slices.IndexFunc(w.Pods, func(p *corev1.Pod) bool { return p.UID == uid })
	if i < 0 {
		return nil
	}
	now, err := c.live(ctx, w.Pods[i])
	if err != nil {
		return err
	}
	w.Looked.Live[uid] = true
	if now != nil {
		c.seenGenerations.note(now, w.Now)
	}
	w.Pods = slices.Clone(w.Pods)
	if now == nil {
		w.Pods = slices.Delete(w.Pods, i, i+1)
	} else {
		w.Pods[i] = now
	}
	return nil
}

// askMemory asks what pods' containers hold, all at once. A pod of which nothing is known is none that may be lowered at
// once.
func (c looker) askMemory(ctx context.Context, w *tuning.View, pods []types.UID) {
	if len(pods) == 0 {
		return
	}
	var unknown []types.UID
	for _, uid := range pods {
		if last, known := c.memoryHeld.of(uid, w.Now); known {
			w.SetMemory(uid, last.held, last.soon)
		} else {
			unknown = append(unknown, uid)
		}
	}
	if len(unknown) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, measureFor)
	defer cancel()
	held, soon := c.askGauge(ctx, w, unknown)
	for _, uid := range unknown {
		answer := heldAt{at: w.Now, held: held[uid], soon: soon && len(held[uid]) == 0}
		w.SetMemory(uid, answer.held, answer.soon)
		c.memoryHeld.note(uid, answer)
	}
}

// askGauge asks what the containers of pods hold, as far as the usage source knows; soon: it will know more within seconds.
func (c looker) askGauge(ctx context.Context, w *tuning.View, pods []types.UID) (held map[types.UID]map[string]recommender.Amount, soon bool) {
	if c.Gauges == nil {
		return nil, false
	}
	gauge, err := c.Gauges(w.Policy.Settings)
	if err != nil {
		return nil, false
	}
	var names []string
	for _, uid := range pods {
		if pod := w.Pod(uid); pod != nil {
			names = append(names, pod.Name)
		}
	}
	answer, err := gauge.Memory(ctx, w.Rec.Namespace, names, w.Policy.Settings.Resize.RateWindow, w.Now)
	if soon = errors.Is(err, usage.ErrSoon); err != nil && !soon {
		return nil, false
	}
	held = map[types.UID]map[string]recommender.Amount{}
	for _, uid := range pods {
		if pod := w.Pod(uid); pod != nil {
			held[uid] = amounts(answer[pod.Name])
		}
	}
	return held, soon
}

// amounts leaves out what is no number.
func amounts(values map[string]float64) map[string]recommender.Amount {
	out := map[string]recommender.Amount{}
	for name, value := range values {
		if !math.IsNaN(value) && !math.IsInf(value, 0) {
			out[name] = recommender.Amount(value)
		}
	}
	return out
}
