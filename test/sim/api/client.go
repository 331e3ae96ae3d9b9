package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Link is an actor's way to the server. Before is asked about each call and may answer in the server's place; After
// may lose the answer of one that was carried out. Nil functions let everything pass.
type Link struct {
	Before func(ctx context.Context, c Call) error
	After  func(c Call, answer error) error
}

// Call is one request.
type Call struct {
	Actor, Verb, Kind string
	Key               client.ObjectKey
	// Write: it may change something.
	Write bool
}

// ErrLost: no answer arrived.
var ErrLost = errors.New("connection reset by peer")

// Client is what an actor has of the server. It reads what is stored, not a cache.
type Client struct {
	Server *Server
	Actor  string
	Link   *Link
}

var _ client.Client = &Client{}

// As is a client of the server.
func (s *Server) As(actor string, link *Link) *Client {
	return &Client{Server: s, Actor: actor, Link: link}
}

// call makes one request.
func (c *Client) call(ctx context.Context, verb string, o client.Object, write bool, body string, do func() error) error {
	k := c.Server.kindOf(o)
	call := Call{Actor: c.Actor, Verb: verb, Kind: k.Kind, Key: client.ObjectKeyFromObject(o), Write: write}
	if !write {
		c.Server.Journal.Reads[c.Actor]++
	}
	before := c.Server.version
	uid := string(o.GetUID())
	answer, lost := c.through(ctx, call, func() error {
		if refuse := c.Server.Refuse; refuse != nil && write {
			if err := refuse(c.Actor, verb, o); err != nil {
				return err
			}
		}
		return do()
	})
	if write {
		c.Server.Journal.note(Write{
			At: c.Server.Now(), Actor: c.Actor, Verb: verb, Kind: k.Kind, Key: call.Key.String(), UID: uid, Body: body,
			Answer: answer, Lost: lost, Changed: c.Server.version != before,
		})
	}
	return answer
}

// through the link, where there is any.
func (c *Client) through(ctx context.Context, call Call, do func() error) (answer error, lost bool) {
	if c.Link != nil && c.Link.Before != nil {
		if err := c.Link.Before(ctx, call); err != nil {
			return err, errors.Is(err, ErrLost)
		}
	}
	answer = do()
	if c.Link != nil && c.Link.After != nil {
		if err := c.Link.After(call, answer); err != nil {
			return err, true
		}
	}
	return answer, false
}

// Get reads what is stored.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if u, untyped := o.(*unstructured.Unstructured); untyped {
		return c.Server.typed(u, func(typed client.Object) error { return c.Get(ctx, key, typed, opts...) })
	}
	k := c.Server.kindOf(o)
	c.Server.Journal.Reads[c.Actor]++
	err, _ := c.through(ctx, Call{Actor: c.Actor, Verb: "get", Kind: k.Kind, Key: key}, func() error { return c.Server.get(key, o, opts...) })
	return err
}

// List reads what is stored.
func (c *Client) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	k := c.Server.kindOf(list)
	c.Server.Journal.Reads[c.Actor]++
	err, _ := c.through(ctx, Call{Actor: c.Actor, Verb: "list", Kind: k.Kind}, func() error { return c.Server.list(list, opts...) })
	return err
}

// Create stores a new object.
func (c *Client) Create(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
	return c.call(ctx, "create", o, true, "", func() error { return c.Server.create(o) })
}

// Delete marks an object as deleted.
func (c *Client) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return c.call(ctx, "delete", o, true, "", func() error { return c.Server.delete(o, opts...) })
}

// Update replaces all but the status.
func (c *Client) Update(ctx context.Context, o client.Object, _ ...client.UpdateOption) error {
	return c.call(ctx, "update", o, true, "", func() error { return c.Server.update(o, whole) })
}

// Patch changes all but the status. A dry run changes nothing.
func (c *Client) Patch(ctx context.Context, o client.Object, p client.Patch, options ...client.PatchOption) error {
	if u, untyped := o.(*unstructured.Unstructured); untyped {
		return c.Server.typed(u, func(typed client.Object) error { return c.Patch(ctx, typed, p, options...) })
	}
	if of := (&client.PatchOptions{}).ApplyOptions(options); len(of.DryRun) > 0 {
		return c.call(ctx, "patch", o, true, "dry run", func() error { return c.Server.tryPatch(o, p) })
	}
	return c.call(ctx, "patch", o, true, "", func() error { return c.Server.patch(o, p, whole) })
}

// DeleteAllOf is not served.
func (c *Client) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errors.ErrUnsupported
}

// Apply is not served.
func (c *Client) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errors.ErrUnsupported
}

// Status writes the status.
func (c *Client) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource is one of status, resize, binding, eviction and finalize.
func (c *Client) SubResource(name string) client.SubResourceClient { return &subresource{c, name} }

// Scheme of the server.
func (c *Client) Scheme() *runtime.Scheme { return c.Server.Scheme }

// RESTMapper is none: objects are typed.
func (c *Client) RESTMapper() meta.RESTMapper { return nil }

// GroupVersionKindFor an object.
func (c *Client) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	return c.Server.kindOf(o).GroupVersionKind, nil
}

// IsObjectNamespaced tells whether objects of a kind have a namespace.
func (c *Client) IsObjectNamespaced(o runtime.Object) (bool, error) {
	return !c.Server.kindOf(o).cluster, nil
}

type subresource struct {
	*Client
	name string
}

func (r *subresource) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return errors.ErrUnsupported
}

func (r *subresource) Create(ctx context.Context, o, sub client.Object, _ ...client.SubResourceCreateOption) error {
	return r.call(ctx, "create/"+r.name, o, true, "", func() error {
		switch sub := sub.(type) {
		case *corev1.Binding:
			return r.Server.bind(o.(*corev1.Pod), sub)
		case *policyv1.Eviction:
			return r.Server.evict(o.(*corev1.Pod), sub)
		}
		return fmt.Errorf("the server has no subresource %s", r.name)
	})
}

func (r *subresource) Update(ctx context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	return r.call(ctx, "update/"+r.name, o, true, "", func() error { return r.Server.update(o, part(r.name)) })
}

func (r *subresource) Patch(ctx context.Context, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
	if r.name == "resize" {
		data, err := p.Data(o)
		if err != nil {
			return err
		}
		return r.call(ctx, "patch/resize", o, true, string(data), func() error { return r.Server.resize(o.(*corev1.Pod), p, r.manager(options)) })
	}
	return r.call(ctx, "patch/"+r.name, o, true, "", func() error { return r.Server.patch(o, p, part(r.name)) })
}

// manager is who a write is noted as: the one that it names, or else who writes.
func (r *subresource) manager(options []client.SubResourcePatchOption) string {
	of := &client.SubResourcePatchOptions{}
	of.ApplyOptions(options)
	return cmp.Or(of.FieldManager, r.Actor)
}

func (r *subresource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errors.ErrUnsupported
}
