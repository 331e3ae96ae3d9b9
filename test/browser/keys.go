package browser

import (
	"context"
	"fmt"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// Reached is what the key Tab comes to.
type Reached struct {
	// Links, Regions and Fields are how many of each the page has. A region is what has a tabindex, a field what is typed into or pressed.
	Links, Regions, Fields int
	// Missed are those that Tab does not come to, by their text or label.
	Missed []string
}

// number gives each link and region a number, and counts them.
const number = `(() => { let n = 0; for (const e of document.querySelectorAll("a[href], [tabindex], input, button")) { e.dataset.number = n++; } return n; })()`

// atNow is the number of what has the focus, or -1.
const atNow = `(() => { const e = document.activeElement; return e && e.dataset.number !== undefined ? Number(e.dataset.number) : -1; })()`

// named is what has a number, in words.
const named = `(() => { const e = document.querySelector('[data-number="%d"]'); return e.tagName + " " + (e.getAttribute("aria-label") || e.textContent).slice(0, 80); })()`

// Tab presses Tab until the focus has been everywhere that it comes to.
func (b *Browser) Tab(address string, v View) (out Reached, err error) {
	ctx, cancel := chromedp.NewContext(b.ctx)
	defer cancel()
	bounded, end := context.WithTimeout(ctx, mostWait)
	defer end()
	press := chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if out.Links, err = chromedp.Evaluate[int](`document.querySelectorAll("a[href]").length`)(ctx, t); err != nil {
			return err
		}
		all, err := chromedp.Evaluate[int](number)(ctx, t)
		if err != nil {
			return err
		}
		if out.Fields, err = chromedp.Evaluate[int](`document.querySelectorAll("input, button").length`)(ctx, t); err != nil {
			return err
		}
		out.Regions = all - out.Links - out.Fields
		seen := map[int]bool{}
		for range all + 1 {
			for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeRawKeyDown, input.DispatchKeyEventTypeKeyUp} {
				if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: "Tab", Code: "Tab", WindowsVirtualKeyCode: 9}); err != nil {
					return err
				}
			}
			at, err := chromedp.Evaluate[int](atNow)(ctx, t)
			if err != nil {
				return err
			}
			seen[at] = true
		}
		for n := range all {
			if !seen[n] {
				what, err := chromedp.Evaluate[string](fmt.Sprintf(named, n))(ctx, t)
				if err != nil {
					return err
				}
				out.Missed = append(out.Missed, what)
			}
		}
		return nil
	})
	err = chromedp.Do(bounded, asked(v), chromedp.Navigate(address), press)
	return out, err
}

// Links are the addresses that the links of a page lead to.
func (b *Browser) Links(address string) (links []string, err error) {
	ctx, cancel := chromedp.NewContext(b.ctx)
	defer cancel()
	bounded, end := context.WithTimeout(ctx, mostWait)
	defer end()
	read := chromedp.Func(func(ctx context.Context, t *chromedp.Target) (err error) {
		links, err = chromedp.Evaluate[[]string](`[...document.querySelectorAll("a[href]")].map(a => a.href)`)(ctx, t)
		return err
	})
	err = chromedp.Do(bounded, chromedp.Navigate(address), read)
	return links, err
}

// Type types a text into a field and presses Enter, and returns the text of the page that comes.
func (b *Browser) Type(address, field, text string) (said string, err error) {
	ctx, cancel := chromedp.NewContext(b.ctx)
	defer cancel()
	bounded, end := context.WithTimeout(ctx, mostWait)
	defer end()
	err = chromedp.Do(bounded, chromedp.Navigate(address), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := chromedp.Evaluate[bool](fmt.Sprintf(`document.querySelector(%q).focus(), window.stays = true`, field))(ctx, t); err != nil {
			return err
		}
		if _, err := cdp.Call(ctx, t, input.InsertText, input.InsertTextParams{Text: text}); err != nil {
			return err
		}
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
			if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: "Enter", Code: "Enter", Text: "\r", WindowsVirtualKeyCode: 13}); err != nil {
				return err
			}
		}
		for {
			came, err := chromedp.Evaluate[string](`window.stays ? "" : document.readyState === "complete" ? document.body.innerText : ""`)(ctx, t)
			if err == nil && came != "" {
				said = came
				return nil
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}))
	return said, err
}
