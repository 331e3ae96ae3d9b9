package pod

import (
	"strconv"
	"strings"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// patch returns the JSON patch (RFC 6902) from the received object to the wanted one: only the amounts that differ
// and the annotation. It is nil if nothing differs.
func patch(p *Pod, units []unit, note string) []byte {
	w := writer{}
	for i := range units {
		w.unit(&units[i])
	}
	w.annotation(p.Metadata.Annotations, note)
	return w.bytes()
}

// writer appends operations of a JSON patch. Amounts are always written with add, which also replaces an existing
// member. Each operation ends with a comma; bytes replaces the last comma with the closing bracket.
type writer struct{ b []byte }

func (w *writer) bytes() []byte {
	if len(w.b) == 0 {
		return nil
	}
	w.b[len(w.b)-1] = ']'
	return w.b
}

// open starts an operation, up to the start of its path.
func (w *writer) open(op string) {
	if w.b == nil {
		w.b = append(make([]byte, 0, 1024), '[')
	}
	w.b = append(w.b, `{"op":"`...)
	w.b = append(w.b, op...)
	w.b = append(w.b, `","path":"`...)
}

func (w *writer) close() { w.b = append(w.b, "},"...) }

// unit writes the differences of one container. It first adds resources if the container has none, because add needs
// an existing parent.
func (w *writer) unit(u *unit) {
	if u.will == u.is {
		return
	}
	if u.Resources == nil {
		w.open("add")
		w.path(u)
		w.b = append(w.b, `","value":{}`...)
		w.close()
	}
	w.list(u, "requests", u.Resources.requests(), requestOf)
	w.list(u, "limits", u.Resources.limits(), limitOf)
}

func requestOf(a recommender.Allocation) recommender.Amount { return a.Request }
func limitOf(a recommender.Allocation) recommender.Amount   { return a.Limit }

// list writes the differences of a container's requests or limits. A missing list is added as a whole. For a resource
// that changes, both amounts are written as whole numbers: with a fraction of a byte left in one of them, the next
// call would read another pair of request and limit.
func (w *writer) list(u *unit, name string, have *Quantities, of func(recommender.Allocation) recommender.Amount) {
	there := have != nil
	for _, r := range recommender.Resources {
		amount := of(u.will[r])
		if u.will[r] == u.is[r] || amount == of(u.is[r]) && whole(r, *have.of(r)) {
			continue
		}
		if amount == 0 {
			w.remove(u, name, r)
			continue
		}
		w.amount(u, name, there, r, amount)
		there = true
	}
}

// amount writes one amount. there reports whether its list exists; otherwise the list is added with this amount in
// it.
func (w *writer) amount(u *unit, list string, there bool, r recommender.Resource, a recommender.Amount) {
	w.open("add")
	w.path(u)
	w.b = append(append(w.b, '/'), list...)
	if there {
		w.b = append(append(w.b, '/'), r.String()...)
		w.b = appendAmount(append(w.b, `","value":`...), r, a)
	} else {
		w.b = append(append(append(w.b, `","value":{"`...), r.String()...), `":`...)
		w.b = append(appendAmount(w.b, r, a), '}')
	}
	w.close()
}

// remove removes an amount that is set; the empty list stays.
func (w *writer) remove(u *unit, list string, r recommender.Resource) {
	w.open("remove")
	w.path(u)
	w.b = append(append(w.b, '/'), list...)
	w.b = append(append(append(w.b, '/'), r.String()...), '"')
	w.close()
}

// path writes the path of the container's resources.
func (w *writer) path(u *unit) {
	list := "/spec/containers/"
	if u.init {
		list = "/spec/initContainers/"
	}
	w.b = append(w.b, list...)
	w.b = strconv.AppendInt(w.b, int64(u.index), 10)
	w.b = append(w.b, "/resources"...)
}

// annotationPath is the JSON pointer of the annotation; "/" in a name is written as "~1" (RFC 6901).
var annotationPath = "/metadata/annotations/" + strings.ReplaceAll(v1alpha1.SeededAnnotation, "/", "~1")

// annotation adds, replaces or removes the annotation about the changes.
func (w *writer) annotation(have map[string]string, note string) {
	old, there := have[v1alpha1.SeededAnnotation]
	switch {
	case there && note == "":
		w.open("remove")
		w.b = append(append(w.b, annotationPath...), '"')
	case note == old:
		return
	case have == nil:
		w.open("add")
		w.b = append(w.b, `/metadata/annotations","value":{"`+v1alpha1.SeededAnnotation+`":`...)
		w.b = append(appendString(w.b, note), '}')
	default:
		w.open("add")
		w.b = append(append(w.b, annotationPath...), `","value":`...)
		w.b = appendString(w.b, note)
	}
	w.close()
}

// binarySuffixes are the suffixes of powers of 1024 in Kubernetes quantities.
var binarySuffixes = [...]string{"", "Ki", "Mi", "Gi", "Ti"}

// appendAmount appends an amount as a quoted quantity, such as "250m" or "256Mi". The result equals podview.Quantity,
// without its three allocations for each amount: a review writes a dozen amounts.
func appendAmount(b []byte, r recommender.Resource, a recommender.Amount) []byte {
	suffix := ""
	if r == recommender.Memory {
		power := 0
		for power < len(binarySuffixes)-1 && a != 0 && a%1024 == 0 {
			a, power = a/1024, power+1
		}
		suffix = binarySuffixes[power]
	} else if suffix = "m"; a%1000 == 0 {
		a, suffix = a/1000, ""
	}
	b = strconv.AppendInt(append(b, '"'), int64(a), 10)
	return append(append(b, suffix...), '"')
}

// appendString appends a JSON string. The text is valid UTF-8: it was decoded from JSON.
func appendString(b []byte, s string) []byte {
	// Only quotes, backslashes and control characters must be escaped in JSON (RFC 8259).
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
