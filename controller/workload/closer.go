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
	"attune.io/attune/usage"
)

// mostLooks bounds how often one pass looks closer. Each look answers all questions of a decision, and what it finds
// may raise a few new ones: without a rival for the same room a decision settles far sooner.
const mostLooks = 5

// decide decides, and again after every closer look, until nothing that is done rests on what was not looked at and
// the room it takes is promised to it alone. Where rivals for the room keep it from settling, it begins nothing new
// and decides the rest. A decision that comes too soon to be carried out takes neither room nor a turn from others.
func (c *Controller) decide(ctx context.Context, w *world) decision {
	key := client.ObjectKeyFromObject(w.rec)
	w.promised, w.rooms = c.promises.read(), nil
	for range mostLooks {
		d := decide(*w)
		switch {
		case c.closer(ctx, w, d.asks):
		case w.part == wholePass && c.early(*w, d) > 0:
			return d
		case !c.promises.make(key, promised(d.status.Records, w.pod), w.promised):
			w.promised, w.rooms = c.promises.read(), nil
		case w.full == 0 && c.full(w, d.begins):
		default:
			d.turns = d.begins
			return d
		}
	}
	return c.decideWithoutNew(ctx, w)
}

// full: as many resizes are begun in all workloads as may be for now; this one's have to wait.
func (c *Controller) full(w *world, begins int) bool {
	w.full = c.limit.take(begins, w.now)
	return w.full > 0
}

// decideWithoutNew decides what is open, when a pass could not settle what is new.
func (c *Controller) decideWithoutNew(ctx context.Context, w *world) decision {
	incomplete.WithLabelValues(whatUnsettled).Inc()
	log.FromContext(ctx).Info("Nothing new is begun in this pass: other workloads kept taking the room that it counted on", "looks", mostLooks)
	w.close(&resize.Refusal{Reason: resize.ReasonUnsettled, Transient: true, PodWide: true,
		Message: "other workloads took the room that was counted on while it was looked at"})
	d := decide(*w)
	if c.closer(ctx, w, d.asks) {
		d = decide(*w)
	}
	c.promises.renew(client.ObjectKeyFromObject(w.rec), promised(d.status.Records, w.pod))
	return d
}

// closer answers questions; false: there are none. What cannot be read is noted, and asked no more in this pass.
func (c *Controller) closer(ctx context.Context, w *world, asks questions) bool {
	for _, node := range asks.rooms {
		if err := c.lookAtRoom(ctx, w, node); err != nil {
			w.unread.node(node, notKnown(ctx, whatRoom, err))
		}
	}
	for _, uid := range asks.live {
		if err := c.lookAtPod(ctx, w, uid); err != nil {
			w.unread.pod(uid, notKnown(ctx, whatPod, err))
		}
	}
	if asks.nodes {
		if err := c.lookAtNodes(ctx, w); err != nil {
			w.unread.cluster = notKnown(ctx, whatNodes, err)
		}
	}
	c.weigh(ctx, w, asks.memory)
	return !asks.none()
}

func (c *Controller) lookAtRoom(ctx context.Context, w *world, node string) error {
	list := &corev1.PodList{}
	if err := c.Client.List(ctx, list, client.MatchingFields{byNode: node}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing pods of node %s: %w", node, err)
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	if w.rooms == nil {
		w.rooms = map[string]*resize.Room{}
	}
	w.rooms[node] = resize.RoomOf(pods, w.promised.onNode(node), w.now)
	return nil
}

func (c *Controller) lookAtNodes(ctx context.Context, w *world) error {
	list := &corev1.NodeList{}
	if err := c.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	w.cluster = make([]*corev1.Node, 0, len(list.Items))
	for i := range list.Items {
		w.cluster = append(w.cluster, &list.Items[i])
	}
	return nil
}

// lookAtPod puts the pod as the API server has it in the place of the cached one.
func (c *Controller) lookAtPod(ctx context.Context, w *world, uid types.UID) error {
	i := slices.IndexFunc(w.pods, func(p *corev1.Pod) bool { return p.UID == uid })
	if i < 0 {
		return nil
	}
	now, err := c.live(ctx, w.pods[i])
	if err != nil {
		return err
	}
	w.seenLive[uid] = true
	if now != nil {
		c.newest.note(now, w.now)
	}
	w.pods = slices.Clone(w.pods)
	if now == nil {
		w.pods = slices.Delete(w.pods, i, i+1)
	} else {
		w.pods[i] = now
	}
	return nil
}

// weigh asks what pods' containers hold, all at once. A pod of which nothing is known is none that may be lowered at
// once.
func (c *Controller) weigh(ctx context.Context, w *world, pods []types.UID) {
	if len(pods) == 0 {
		return
	}
	var unknown []types.UID
	for _, uid := range pods {
		if last, known := c.weights.of(uid, w.now); known {
			w.weighed(uid, last)
		} else {
			unknown = append(unknown, uid)
		}
	}
	if len(unknown) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, measureFor)
	defer cancel()
	held, soon := c.held(ctx, w, unknown)
	for _, uid := range unknown {
		answer := weight{at: w.now, held: held[uid], soon: soon && len(held[uid]) == 0}
		w.weighed(uid, answer)
		c.weights.note(uid, answer)
	}
}

// weighed notes what a pod's containers hold.
func (w *world) weighed(pod types.UID, answer weight) {
	w.memory[pod] = answer.held
	if answer.soon {
		w.unweighed[pod] = true
	}
}

// held is what the containers of pods hold, as far as the usage source knows; soon: it will know more within seconds.
func (c *Controller) held(ctx context.Context, w *world, pods []types.UID) (held map[types.UID]map[string]recommender.Amount, soon bool) {
	if c.Gauges == nil {
		return nil, false
	}
	gauge, err := c.Gauges(w.settings)
	if err != nil {
		return nil, false
	}
	var names []string
	for _, uid := range pods {
		if pod := w.pod(uid); pod != nil {
			names = append(names, pod.Name)
		}
	}
	answer, err := gauge.Memory(ctx, w.rec.Namespace, names, w.settings.Resize.RateWindow, w.now)
	if soon = errors.Is(err, usage.ErrSoon); err != nil && !soon {
		return nil, false
	}
	held = map[types.UID]map[string]recommender.Amount{}
	for _, uid := range pods {
		if pod := w.pod(uid); pod != nil {
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
