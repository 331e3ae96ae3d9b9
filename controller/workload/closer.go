package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// mostLooks bounds how often one pass looks closer. Each look answers all questions of a decision, and the one after
// it may pick other pods.
const mostLooks = 5

// errUnsettled: the world changed faster than it was looked at.
var errUnsettled = errors.New("other workloads took the room meanwhile")

// decide decides, and again after every closer look, until nothing that is done rests on what nobody looked at and
// the room it takes is promised to it alone.
func (c *Controller) decide(ctx context.Context, w *world) (decision, error) {
	key := client.ObjectKeyFromObject(w.rec)
	w.promised = c.promises.read()
	for range mostLooks {
		d := decide(*w)
		looked, err := c.closer(ctx, w, d.asks)
		switch {
		case err != nil:
			return decision{}, err
		case looked:
		case c.promises.make(key, promised(d.status.Records, w.pod), w.promised):
			return d, nil
		default:
			w.promised, w.rooms = c.promises.read(), nil
		}
	}
	return decision{}, errUnsettled
}

// closer answers questions; false: there are none.
func (c *Controller) closer(ctx context.Context, w *world, asks questions) (bool, error) {
	for _, node := range asks.rooms {
		if err := c.lookAtRoom(ctx, w, node); err != nil {
			return false, err
		}
	}
	for _, uid := range asks.live {
		if err := c.lookAtPod(ctx, w, uid); err != nil {
			return false, err
		}
	}
	if asks.nodes {
		if err := c.lookAtNodes(ctx, w); err != nil {
			return false, err
		}
	}
	c.weigh(ctx, w, asks.memory)
	return !asks.none(), nil
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

// weigh asks what pods' containers hold. A pod of which nothing is known is none that may be lowered at once.
func (c *Controller) weigh(ctx context.Context, w *world, pods []types.UID) {
	if len(pods) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, measureFor)
	defer cancel()
	for _, uid := range pods {
		w.memory[uid] = c.weights.of(uid, w.now, func() map[string]recommender.Amount { return c.held(ctx, w, w.pod(uid)) })
	}
}

// held is what the containers of a pod hold, as far as the usage source knows.
func (c *Controller) held(ctx context.Context, w *world, pod *corev1.Pod) map[string]recommender.Amount {
	if c.Gauges == nil || pod == nil {
		return nil
	}
	gauge, err := c.Gauges(w.settings)
	if err != nil {
		return nil
	}
	amounts := map[string]float64{}
	for _, container := range resize.Read(pod) {
		note(amounts, container.Name, func() (float64, error) {
			return gauge.Memory(ctx, pod.Namespace, pod.Name, container.Name, w.settings.Resize.RateWindow, w.now)
		})
	}
	held := map[string]recommender.Amount{}
	for name, amount := range amounts {
		held[name] = recommender.Amount(amount)
	}
	return held
}
